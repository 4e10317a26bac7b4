/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-cpu.h"

#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "tests/lib/tap.h"

enum {
	PAGE = 4096,
	SIGNAL_STACK = 64 * 1024,
	BELOW = 8192, /* bytes below the stack that deep calls may use */
	TRAMPOLINE_AT = 64,
	CODE_BYTES = TRAMPOLINE_MAX + PAGE,
	RSP = 4
};
enum { RANDOM_FLAGS = 0x8d5, FIXED_FLAGS = 0x202 }; /* CF PF AF ZF SF OF; IF and bit 1 */

_Static_assert(offsetof(struct fake_cpu, in) == 0, "fake_cpu_run");
_Static_assert(offsetof(struct fake_cpu, out) == 17 * 8, "fake_cpu_run");
_Static_assert(offsetof(struct fake_cpu, target) == 34 * 8, "fake_cpu_run");
_Static_assert(offsetof(struct fake_cpu, saved_rsp) == 35 * 8, "fake_cpu_run");

/* Registers are loaded and stored by number; MOV leaves the flags alone. */
__asm__(".pushsection .text\n"
	".macro gs_load reg:req, n:req\n mov %gs:8*\\n, \\reg\n.endm\n"
	".macro gs_store reg:req, n:req\n mov \\reg, %gs:8*(17+\\n)\n.endm\n"
	".macro each_reg do:req\n"
	"\\do %rax, 0\n \\do %rcx, 1\n \\do %rdx, 2\n \\do %rbx, 3\n \\do %rbp, 5\n"
	"\\do %rsi, 6\n \\do %rdi, 7\n \\do %r8, 8\n \\do %r9, 9\n \\do %r10, 10\n"
	"\\do %r11, 11\n \\do %r12, 12\n \\do %r13, 13\n \\do %r14, 14\n \\do %r15, 15\n"
	".endm\n"
	".globl fake_cpu_run\n.type fake_cpu_run, @function\n"
	"fake_cpu_run:\n"
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n pushfq\n"
	"mov %rsp, %gs:8*35\n"
	"mov %gs:8*4, %rsp\n"
	"each_reg gs_load\n"
	"pushq %gs:8*16\n"
	"popfq\n"
	"call *%gs:8*34\n"
	".globl fake_cpu_return_address\n"
	".type fake_cpu_return_address, @notype\n"
	"fake_cpu_return_address:\n"
	"each_reg gs_store\n"
	"mov %rsp, %gs:8*(17+4)\n"
	"pushfq\n popq %gs:8*(17+16)\n"
	"mov %gs:8*35, %rsp\n"
	"popfq\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"ret\n"
	".size fake_cpu_run, . - fake_cpu_run\n"
	".popsection\n");

void *fake_cpu_map_low(size_t size, int protection)
{
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		abort();
	}
	return p;
}

struct fake_rings fake_rings_create(uint32_t cpus)
{
	struct fake_rings r = {.cpus = cpus};
	size_t rings = (size_t)cpus * ring_stride(FAKE_DATA);

	r.size = rings + RING_SAVED_SLOTS * sizeof(*r.saved_arrays);
	r.memory = fake_cpu_map_low(r.size, PROT_READ | PROT_WRITE);
	r.saved_arrays = (struct ring_saved_array *)(void *)(r.memory + rings);
	for (uint32_t i = 0; i < cpus; i++)
		fake_ring(&r, i)->limit = FAKE_DATA - RING_SLACK;
	return r;
}

void fake_rings_destroy(struct fake_rings *rings)
{
	munmap(rings->memory, rings->size);
}

struct ring_header *fake_ring(const struct fake_rings *rings, uint32_t cpu)
{
	return (struct ring_header *)(rings->memory + (size_t)cpu * ring_stride(FAKE_DATA));
}

uint64_t fake_deadline(const struct fake_rings *rings)
{
	return (uint64_t)(uintptr_t)&fake_ring(rings, 0)->spin_deadline;
}

uint8_t *fake_ring_data(const struct fake_rings *rings, uint32_t cpu)
{
	return (uint8_t *)fake_ring(rings, cpu) + RING_HEADER_BYTES;
}

struct fake_cpu *fake_cpu_enter(uint32_t number)
{
	struct fake_cpu *cpu = fake_cpu_map_low(PAGE, PROT_READ | PROT_WRITE);
	stack_t ss = {.ss_sp = fake_cpu_map_low(SIGNAL_STACK, PROT_READ | PROT_WRITE),
		      .ss_size = SIGNAL_STACK};

	cpu->number = number;
	cpu->stack = fake_cpu_map_low(BELOW + FAKE_STACK + PAGE, PROT_READ | PROT_WRITE);
	cpu->stack += BELOW;
	if (mprotect(cpu->stack + FAKE_STACK, PAGE, PROT_NONE) || sigaltstack(&ss, NULL) ||
	    syscall(SYS_arch_prctl, ARCH_SET_GS, cpu)) {
		perror("making a fake CPU");
		abort();
	}
	return cpu;
}

void fake_cpu_leave(struct fake_cpu *cpu)
{
	stack_t old, off = {.ss_flags = SS_DISABLE};

	syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
	if (!sigaltstack(&off, &old))
		munmap(old.ss_sp, old.ss_size);
	munmap(cpu->stack - BELOW, BELOW + FAKE_STACK + PAGE);
	munmap(cpu, PAGE);
}

static uint64_t random_state = 88172645463325252;

void fake_random_seed(uint64_t seed)
{
	random_state = 88172645463325252 + seed;
}

uint64_t fake_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

void fake_random_fill(void *at, size_t bytes)
{
	for (uint8_t *p = at; bytes;) {
		const uint64_t word = fake_random();
		const size_t n = bytes < sizeof(word) ? bytes : sizeof(word);

		memcpy(p, &word, n);
		p += n;
		bytes -= n;
	}
}

void fake_cpu_randomise(struct fake_cpu *cpu)
{
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		if (i != RSP)
			cpu->in.reg[i] = fake_random();
	cpu->in.flags = (fake_random() & RANDOM_FLAGS) | FIXED_FLAGS;
}

bool fake_flags_preserved(const struct fake_regs *before, const struct fake_regs *after)
{
	return !((before->flags ^ after->flags) & ~(uint64_t)RANDOM_FLAGS);
}

bool fake_cpu_preserved(const struct fake_cpu *cpu, uint32_t may_change)
{
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		if (!(may_change & 1u << i) && cpu->in.reg[i] != cpu->out.reg[i]) {
			tap_diag("register %u changed", i);
			return false;
		}
	if (!fake_flags_preserved(&cpu->in, &cpu->out))
		tap_diag("flags %#lx became %#lx", cpu->in.flags, cpu->out.flags);
	return fake_flags_preserved(&cpu->in, &cpu->out);
}

struct trampoline_kernel fake_cpu_kernel(void)
{
	return (struct trampoline_kernel){.cpu_number = offsetof(struct fake_cpu, number),
					  .current_task = offsetof(struct fake_cpu, current_task)};
}

uint64_t fake_function_begin(struct fake_function *f, uint8_t opcode)
{
	int32_t rel = TRAMPOLINE_AT - 5;

	f->code = fake_cpu_map_low(CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
	memset(f->code, 0xcc, CODE_BYTES);
	f->code[0] = opcode;
	memcpy(f->code + 1, &rel, sizeof(rel));
	f->code[5] = 0xc3; /* the rest of the function, and the thunk */
	f->site_end = (uint64_t)(uintptr_t)f->code + 5;
	return (uint64_t)(uintptr_t)f->code + TRAMPOLINE_AT;
}

bool fake_function_create(struct trampoline_spec *spec, const struct fake_rings *rings,
			  enum fake_leave leave, struct fake_function *out)
{
	struct error err = {0};
	struct decoder *decoder;

	spec->gva = fake_function_begin(out, 0xe9);
	spec->rings = (struct trampoline_rings){(uint64_t)(uintptr_t)rings->memory, FAKE_DATA,
						rings->cpus, FAKE_PATIENCE,
						fake_deadline(rings)};
	spec->saved_arrays = (uint64_t)(uintptr_t)rings->saved_arrays;
	spec->unprivileged = true;
	spec->next = spec->capture.point == POINT_RETURN && leave == FAKE_RET ? 0 : out->site_end;
	if (decoder_create(&decoder, &err))
		abort();
	if (trampoline_generate(spec, decoder, &out->trampoline, &err))
		tap_diag("%s", err.text);
	decoder_destroy(decoder);
	memcpy(out->code + TRAMPOLINE_AT, out->trampoline.bytes, out->trampoline.size);
	return !err.code;
}

void fake_function_destroy(struct fake_function *f)
{
	munmap(f->code, CODE_BYTES);
}

bool fake_function_contains(const struct fake_function *f, uint64_t rip)
{
	return rip - (uint64_t)(uintptr_t)f->code < CODE_BYTES;
}

static fake_host_fn host_on_out;
static fake_step_fn host_on_step;
static void *host_arg;

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (signal_number == SIGTRAP)
		host_on_step(host_arg, (uint64_t)*rip);
	else if (host_on_out && *(const uint8_t *)(uintptr_t)*rip == 0xe6)
		*rip = (greg_t)host_on_out(host_arg, (uint64_t)*rip);
	else
		signal(SIGSEGV, SIG_DFL); /* a real fault: die of it */
}

/* The C library's own. ThreadSanitizer's sigaction() delivers SIGTRAP late. */
int __sigaction(int signal_number, const struct sigaction *action, struct sigaction *old);

void fake_host_install(fake_host_fn on_out, fake_step_fn on_step, void *arg)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	host_on_out = on_out;
	host_on_step = on_step;
	host_arg = arg;
	__sigaction(SIGSEGV, &action, NULL);
	if (on_step)
		__sigaction(SIGTRAP, &action, NULL);
}
