/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instructions in the middle of a function, executed natively where they are and in the code that a
 * jump in their place leads to: registers, flags, stack and memory are the same afterwards. Random
 * registers, flags and memory.
 */
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"
#include "patcher/trampoline/code.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { RUNS = 300, RAX = 0, RCX = 1, RSP = 4, RDI = 7, ROOM = 256, TEXT = 64, DATA_AT = 512 };

/* Bytes of a function; its instruction that is displaced begins at 0. Displacements from RIP lead
 * to the data. */
struct sample {
	const char *name;
	uint8_t size, rip_at;
	enum insn_kind kind;
	uint8_t bytes[TEXT];
};

/* Behind a branch that is taken, or called: at 32. */
enum { TARGET = 32 };

#define D 0x11, 0x11, 0x11, 0x11
#define TO(size) TARGET - (size), 0, 0, 0
#define DI(n) 0xbf, (n), 0, 0, 0 /* mov $n,%edi */
#define AT_TARGET(...) [TARGET] = __VA_ARGS__

static const struct sample samples[] = {
	{"lea data(%rip),%rax", 7, 3, INSN_OTHER, {0x48, 0x8d, 0x05, D, 0xc3}},
	{"mov data(%rip),%rcx", 7, 3, INSN_OTHER, {0x48, 0x8b, 0x0d, D, 0xc3}},
	{"mov %r11d,data(%rip)", 7, 3, INSN_OTHER, {0x44, 0x89, 0x1d, D, 0xc3}},
	{"addq $imm8,data(%rip)", 8, 3, INSN_OTHER, {0x48, 0x83, 0x05, D, 0x7f, 0xc3}},
	{"cmpl $imm32,data(%rip)", 10, 2, INSN_OTHER, {0x81, 0x3d, D, 1, 2, 3, 4, 0xc3}},
	{"lock add %eax,data(%rip)", 7, 3, INSN_OTHER, {0xf0, 0x01, 0x05, D, 0xc3}},
	{"cmovb data(%rip),%rax", 8, 4, INSN_OTHER, {0x48, 0x0f, 0x42, 0x05, D, 0xc3}},
	{"setg data(%rip)", 7, 3, INSN_OTHER, {0x0f, 0x9f, 0x05, D, 0xc3}},
	{"push data(%rip)", 6, 2, INSN_OTHER, {0xff, 0x35, D, 0x58, 0xc3}},
	{"mov %gs:0,%r10", 9, 0, INSN_OTHER, {0x65, 0x4c, 0x8b, 0x14, 0x25, 0, 0, 0, 0, 0xc3}},
	{"movabs $imm64,%r10", 10, 0, INSN_OTHER, {0x49, 0xba, 1, 2, 3, 4, 5, 6, 7, 8, 0xc3}},
	{"mov $imm32,%eax", 5, 0, INSN_OTHER, {0xb8, 1, 2, 3, 4, 0xc3}},
	{"adc $imm32,%rax", 6, 0, INSN_OTHER, {0x48, 0x15, 1, 2, 3, 4, 0xc3}},
	{"imul $imm32,%r11,%rax", 7, 0, INSN_OTHER, {0x49, 0x69, 0xc3, 1, 2, 3, 4, 0xc3}},
	{"mov 8(%rsp),%r11", 5, 0, INSN_OTHER, {0x4c, 0x8b, 0x5c, 0x24, 8, 0xc3}},
	{"mov %rax,-0x20(%rsp), with a large displacement",
	 8,
	 0,
	 INSN_OTHER,
	 {0x48, 0x89, 0x84, 0x24, 0x20, 0, 0, 0, 0xc3}},
	{"push $imm32", 5, 0, INSN_OTHER, {0x68, 1, 2, 3, 0x84, 0x58, 0xc3}},
	{"sub $imm32,%rsp",
	 7,
	 0,
	 INSN_OTHER,
	 {0x48, 0x81, 0xec, 0x80, 0, 0, 0, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0, 0xc3}},
	{"a long NOP", 8, 0, INSN_OTHER, {0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0xc3}},
	{"jmp", 5, 0, INSN_JMP_REL, {0xe9, TO(5), DI(1), 0xc3, AT_TARGET(DI(2)), 0xc3}},
	{"call",
	 5,
	 0,
	 INSN_CALL_REL,
	 {0xe8, TO(5), DI(1), 0xc3, AT_TARGET(0x48), 0x8b, 0x0c, 0x24, 0xff, 0xc0, 0xc3}},
#define JCC(c)                                                                       \
	{                                                                            \
		"j" #c, 6, 0, INSN_JCC_REL,                                          \
		{                                                                    \
			0x0f, 0x80 + (c), TO(6), DI(1), 0xc3, AT_TARGET(DI(2)), 0xc3 \
		}                                                                    \
	}
	JCC(0),
	JCC(1),
	JCC(2),
	JCC(3),
	JCC(4),
	JCC(5),
	JCC(6),
	JCC(7),
	JCC(8),
	JCC(9),
	JCC(10),
	JCC(11),
	JCC(12),
	JCC(13),
	JCC(14),
	JCC(15),
};

struct outcome {
	struct fake_regs out;
	uint8_t stack[FAKE_STACK], data[TEXT];
};

struct run {
	struct fake_site site;
	struct fake_regs in;
	uint8_t stack[FAKE_STACK], data[TEXT];
	struct outcome plain, displaced;
};

static uint8_t *data_of(const struct run *r)
{
	return r->site.function.code + TRAMPOLINE_MAX + DATA_AT;
}

static void write_function(struct run *r, const struct sample *s)
{
	uint8_t *code = r->site.function.code;
	const int32_t distance = (int32_t)(data_of(r) - (code + s->size));

	memcpy(code, s->bytes, TEXT);
	if (s->rip_at)
		memcpy(code + s->rip_at, &distance, sizeof(distance));
}

static bool write_code(struct run *r, const struct sample *s, uint64_t gva)
{
	uint8_t *code = r->site.function.code;
	struct displaced_insn insn = {.gva = (uint64_t)(uintptr_t)code,
				      .size = s->size,
				      .kind = (uint8_t)s->kind,
				      .rip_at = s->rip_at};
	const struct inside_spec spec = {.gva = gva,
					 .records = r->site.records,
					 .nr_records = r->site.nr_records,
					 .kernel = &r->site.kernel,
					 .insn = &insn,
					 .unprivileged = true};
	struct decoder *decoder;
	struct error err = {0};

	if (s->kind != INSN_OTHER)
		insn.target = (uint64_t)(uintptr_t)code + TARGET;
	memcpy(insn.bytes, code, s->size);
	if (decoder_create(&decoder, &err))
		abort();
	if (inside_generate(&spec, decoder, &r->site.shared, &err))
		tap_diag("%s: %s", s->name, err.text);
	decoder_destroy(decoder);
	memcpy((void *)(uintptr_t)gva, r->site.shared.bytes, r->site.shared.size);
	return !err.code;
}

static void write_jump(struct run *r, const struct sample *s, uint64_t gva)
{
	uint8_t *code = r->site.function.code;
	const int32_t distance = (int32_t)(gva - ((uint64_t)(uintptr_t)code + JUMP_SIZE));

	memset(code, 0x90, s->size);
	code[0] = 0xe9;
	memcpy(code + 1, &distance, sizeof(distance));
}

static void prepare(struct run *r)
{
	fake_site_prepare(&r->site);
	r->site.cpu->in.reg[RSP] -= ROOM;
	r->in = r->site.cpu->in;
	memcpy(r->stack, r->site.cpu->stack, FAKE_STACK);
	fake_random_fill(r->data, TEXT);
}

/* What lies below the stack pointer is nobody's. */
static void execute(struct run *r, struct outcome *out)
{
	const uint64_t used = r->in.reg[RSP] - (uint64_t)(uintptr_t)r->site.cpu->stack;

	r->site.cpu->in = r->in;
	memcpy(r->site.cpu->stack, r->stack, FAKE_STACK);
	memcpy(data_of(r), r->data, TEXT);
	fake_site_call(&r->site);
	memset(out, 0, sizeof(*out));
	out->out = r->site.cpu->out;
	memcpy(out->stack + used, r->site.cpu->stack + used, FAKE_STACK - used);
	memcpy(out->data, data_of(r), TEXT);
}

static bool recorded(const struct run *r)
{
	const uint8_t *at = fake_site_data(&r->site.groups[0]);
	const uint32_t expected[] = {ring_commit(FAKE_SITE_ID),
				     (uint32_t)(uintptr_t)r->site.function.code + SITE_SIZE};

	return !memcmp(at, expected, sizeof(expected)) &&
	       !memcmp(at + direct_layout(DIRECT_PID).pid, fake_site_pid, sizeof(*fake_site_pid));
}

static bool run_good(struct run *r, const struct sample *s, uint64_t gva)
{
	write_function(r, s);
	prepare(r);
	execute(r, &r->plain);
	fake_site_clear(&r->site, 0, FAKE_DATA - RING_SLACK);
	write_jump(r, s, gva);
	execute(r, &r->displaced);
	return recorded(r) && !memcmp(&r->plain, &r->displaced, sizeof(r->plain));
}

static void test_sample(const struct sample *s)
{
	struct run *r = calloc(1, sizeof(*r));
	unsigned int n = 0;
	uint64_t gva;

	if (!r)
		abort();
	fake_site_init(&r->site, FAKE_INSIDE);
	fake_site_add(&r->site, 0, DIRECT_PID, TRAMPOLINE_BLOCK, NULL);
	gva = fake_function_begin(&r->site.function, 0xe9);
	write_function(r, s);
	if (write_code(r, s, gva))
		while (n < RUNS && run_good(r, s, gva))
			n++;
	ok(n == RUNS, "%s does the same elsewhere, %u times", s->name, n);
	fake_site_deinit(&r->site);
	free(r);
}

static void test_far(void)
{
	struct displaced_insn insn = {.gva = 0x1000, .size = 7, .rip_at = 3};
	uint8_t bytes[INSN_MAX_SIZE];

	ok(displaced_relocate(&insn, 0xffffffff00000000, bytes, NULL) < 0,
	   "what is too far away is refused");
}

int main(void)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		test_sample(&samples[i]);
	test_far();
	return tap_done();
}
