/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands in front of a `ret`: executed natively where it is, by the trampoline that a jump in
 * its place leads to, and by the host for a trap. Registers and stack pointer are the same
 * afterwards. Random registers and stacks.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "patcher/text/function.h"
#include "tests/lib/fake-guest.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { RUNS = 100, RSP = 4, RBP = 5, R10 = 10, ROOM = 0x1000, CODE = 64, STACK_AT = 0x20000 };

struct sample {
	const char *name;
	struct epilogue epilogue;
};

static const struct sample samples[] = {
	{"pop %rbp", {1, {0x5d}}},
	{"pop %r14; pop %r15; pop %rbp", {5, {0x41, 0x5e, 0x41, 0x5f, 0x5d}}},
	{"pop %rax; pop %rbx; pop %r8", {4, {0x58, 0x5b, 0x41, 0x58}}},
	{"leave", {1, {0xc9}}},
	{"add $imm8,%rsp; pop %rbx", {5, {0x48, 0x83, 0xc4, 0x18, 0x5b}}},
	{"add $imm8,%rsp, of less than 0", {4, {0x48, 0x83, 0xc4, 0xe8}}},
	{"add $imm32,%rsp", {7, {0x48, 0x81, 0xc4, 0x18, 1, 0, 0}}},
	{"lea -8(%r10),%rsp", {4, {0x49, 0x8d, 0x62, 0xf8}}},
	{"lea -0x28(%rbp),%rsp; pop %r12", {6, {0x48, 0x8d, 0x65, 0xd8, 0x41, 0x5c}}},
	{"lea disp32(%rbp),%rsp", {7, {0x48, 0x8d, 0xa5, 0x10, 1, 0, 0}}},
	{"mov %rbp,%rsp; pop %rbp", {4, {0x48, 0x89, 0xec, 0x5d}}},
	{"mov %rbx,%rax; pop %rbx", {4, {0x48, 0x89, 0xd8, 0x5b}}},
	{"mov %rbx,%rax, the other encoding", {3, {0x48, 0x8b, 0xc3}}},
	{"mov %r12d,%eax", {3, {0x44, 0x89, 0xe0}}},
	{"mov %rax,%r12", {3, {0x49, 0x89, 0xc4}}},
	{"xor %eax,%eax", {2, {0x31, 0xc0}}},
	{"xor %r12,%r12, the other encoding", {3, {0x4d, 0x33, 0xe4}}},
	{"mov $imm32,%eax", {5, {0xb8, 1, 2, 3, 0x84}}},
	{"mov $imm32,%r12d", {6, {0x41, 0xbc, 1, 2, 3, 4}}},
};

static const struct sample others[] = {
	{"pop %rsp", {1, {0x5c}}},
	{"pop (%rax)", {2, {0x8f, 0}}},
	{"mov (%rbx),%rax", {3, {0x48, 0x8b, 0x03}}},
	{"mov %rax,8(%rbx)", {4, {0x48, 0x89, 0x43, 8}}},
	{"lea data(%rip),%rax", {7, {0x48, 0x8d, 0x05, 1, 2, 3, 4}}},
	{"lea 8(%rsp,%rax),%rax", {5, {0x48, 0x8d, 0x44, 0x04, 8}}},
	{"add $imm8,%rax", {4, {0x48, 0x83, 0xc0, 1}}},
	{"sub $imm8,%rsp", {4, {0x48, 0x83, 0xec, 1}}},
	{"xor %eax,%ecx", {2, {0x31, 0xc1}}},
	{"pop %ax", {2, {0x66, 0x58}}},
	{"movabs $imm64,%rax", {10, {0x48, 0xb8}}},
	{"ret", {1, {0xc3}}},
	{"half of an add", {6, {0x48, 0x81, 0xc4, 0x18, 1, 0}}},
	{"half of a mov", {1, {0x48}}},
	{"a NOP", {1, {0x90}}},
};

struct run {
	const struct sample *sample;
	struct fake_site site;
	struct fake_guest fg;
	uint8_t *code, *stack; /* what is called; ROOM bytes */
};

/* --- the host ----------------------------------------------------------------------------------
 */

/* By their numbers in instructions. */
static uint64_t *reg_of(struct guest_regs *regs, unsigned int number)
{
	uint64_t *const all[FAKE_REGS] = {&regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
					  &regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
					  &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
					  &regs->r12, &regs->r13, &regs->r14, &regs->r15};

	return all[number];
}

/* The guest's stack lies elsewhere than this process's. */
static uint64_t in_guest(const struct run *r, uint64_t value)
{
	const uint64_t at = value - (uint64_t)(uintptr_t)r->stack;

	return at < ROOM ? fake_gva(STACK_AT + at) : value;
}

static bool run_host(struct run *r, struct guest_regs *regs)
{
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		*reg_of(regs, i) = in_guest(r, r->site.cpu->in.reg[i]);
	memcpy(fake_text(&r->fg, STACK_AT), r->stack, ROOM);
	return !epilogue_run(&r->sample->epilogue, &r->fg.kernel, regs, NULL);
}

/* --- this CPU ----------------------------------------------------------------------------------
 */

/* mov $SP,%rsp, and behind it the sample, or a jump to the slot. */
static void write_code(struct run *r, uint64_t sp, bool trampoline)
{
	const uint32_t low = (uint32_t)sp;
	uint8_t *at = r->code;
	int32_t distance;

	memcpy(at, "\x48\xc7\xc4", 3);
	memcpy(at + 3, &low, sizeof(low));
	at += 7;
	if (!trampoline) {
		memcpy(at, r->sample->epilogue.bytes, r->sample->epilogue.size);
		at[r->sample->epilogue.size] = 0xc3;
		return;
	}
	distance = (int32_t)(r->site.function.code - (at + JUMP_SIZE));
	at[0] = 0xe9;
	memcpy(at + 1, &distance, sizeof(distance));
}

/* fake_cpu_run() pushes the flags where `back`, the return address, was. */
static struct fake_regs run_native(struct run *r, uint64_t sp, size_t back, bool trampoline)
{
	const uint64_t address = (uint64_t)(uintptr_t)fake_cpu_return_address;

	memcpy(r->stack + back, &address, sizeof(address));
	write_code(r, sp, trampoline);
	r->site.cpu->target = (uint64_t)(uintptr_t)r->code;
	fake_cpu_run();
	return r->site.cpu->out;
}

static bool same_regs(const struct run *r, const struct fake_regs *native,
		      const struct fake_regs *jumped, struct guest_regs *host)
{
	/* RCX, RSI and so on are nobody's behind a return */
	const uint32_t lost = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 0xf << 8;

	for (unsigned int i = 0; i < FAKE_REGS; i++) {
		const uint64_t expected = in_guest(r, native->reg[i]);
		/* the `ret`, which the host has not done yet */
		const uint64_t by_host = *reg_of(host, i) + (i == RSP ? sizeof(uint64_t) : 0);

		if (by_host != expected || (!(lost >> i & 1) && native->reg[i] != jumped->reg[i])) {
			tap_diag(
				"register %u: 0x%llx, 0x%llx by the trampoline, 0x%llx by the host",
				i, (unsigned long long)native->reg[i],
				(unsigned long long)jumped->reg[i], (unsigned long long)by_host);
			return false;
		}
	}
	return true;
}

static bool recorded(const struct run *r, const struct fake_regs *native)
{
	const struct record_layout *layout = &r->site.function.trampoline.layout;
	const uint8_t *at = fake_site_data(&r->site.own);
	uint64_t key, result;

	memcpy(&key, at + layout->offset[FIELD_KEY], sizeof(key));
	memcpy(&result, at + layout->offset[FIELD_RESULT], sizeof(result));
	return key == native->reg[RSP] - sizeof(uint64_t) - RECORD_KEY_BIAS &&
	       result == native->reg[0];
}

static bool run_good(struct run *r)
{
	const uint64_t sp = (uint64_t)(uintptr_t)r->stack + ROOM / 2;
	struct fake_regs native, jumped;
	struct guest_regs host;
	size_t back;

	fake_site_prepare(&r->site);
	fake_random_fill(r->stack, ROOM);
	r->site.cpu->in.reg[RBP] = sp + 0x40;
	r->site.cpu->in.reg[R10] = sp + 0x80;
	native = r->site.cpu->in;
	r->site.cpu->in.reg[RSP] = sp;
	if (!run_host(r, &host))
		return false;
	r->site.cpu->in.reg[RSP] = native.reg[RSP];
	back = host.rsp - fake_gva(STACK_AT);
	native = run_native(r, sp, back, false);
	fake_site_clear(&r->site, 0, FAKE_DATA - RING_SLACK);
	jumped = run_native(r, sp, back, true);
	return same_regs(r, &native, &jumped, &host) && recorded(r, &native);
}

static void test_sample(const struct sample *sample)
{
	struct run *r = calloc(1, sizeof(*r));
	unsigned int n = 0;

	if (!r || fake_guest_create(&r->fg))
		abort();
	r->sample = sample;
	r->code = fake_cpu_map_low(CODE, PROT_READ | PROT_WRITE | PROT_EXEC);
	r->stack = fake_cpu_map_low(ROOM, PROT_READ | PROT_WRITE);
	fake_site_init(&r->site, FAKE_PRIVATE_RETURN);
	r->site.spec.epilogue = &sample->epilogue;
	if (fake_site_generate(&r->site))
		while (n < RUNS && run_good(r))
			n++;
	ok(epilogue_is_known(sample->epilogue.bytes, sample->epilogue.size), "%s is known",
	   sample->name);
	ok(n == RUNS, "%s does the same in a trampoline and by the host, %u times", sample->name,
	   n);
	fake_site_deinit(&r->site);
	munmap(r->stack, ROOM);
	munmap(r->code, CODE);
	fake_guest_destroy(&r->fg);
	free(r);
}

static void test_no_stack(void)
{
	static const struct epilogue pops = {2, {0x5b, 0x5d}};
	struct fake_guest fg;
	struct guest_regs regs = {.rbx = 1, .rsp = 0x1000}, before = regs;
	struct error err;

	if (fake_guest_create(&fg))
		abort();
	ok(epilogue_run(&pops, &fg.kernel, &regs, &err) < 0 &&
		   !memcmp(&regs, &before, sizeof(regs)),
	   "a stack that is not mapped is an error, and changes no register");
	fake_guest_destroy(&fg);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		test_sample(&samples[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ok(!epilogue_is_known(others[i].epilogue.bytes, others[i].epilogue.size),
		   "%s is not known", others[i].name);
	test_no_stack();
	return tap_done();
}
