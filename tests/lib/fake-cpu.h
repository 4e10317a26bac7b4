/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_CPU_H
#define SONDE_TESTS_LIB_FAKE_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "patcher/trampoline/trampoline.h"

/*
 * Trampolines executed natively in user mode: the thread is the guest's CPU, GS its per-CPU area,
 * and the SIGSEGV that OUT raises is the exit to the host. Code, rings and stacks lie below 2 GiB.
 */
enum { FAKE_REGS = 16, FAKE_STACK = 4096, FAKE_DATA = RING_MIN_LARGE };
enum { FAKE_PATIENCE = 1 << 30 }; /* ticks: some tenths of a second */

/* By their numbers in instructions: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8..R15. */
struct fake_regs {
	uint64_t reg[FAKE_REGS];
	uint64_t flags;
};

/* What GS points to; fake_cpu_run() knows the offsets. */
struct fake_cpu {
	struct fake_regs in, out;
	uint64_t target, saved_rsp;
	uint64_t current_task;
	uint32_t number;
	uint8_t *stack; /* FAKE_STACK bytes, followed by a page that cannot be read */
};

struct fake_rings {
	uint8_t *memory;
	uint32_t cpus;
	size_t size;
	struct ring_saved_array *saved_arrays; /* RING_SAVED_SLOTS */
};

/* A function whose site or slot is patched to jump to its trampoline. */
struct fake_function {
	uint8_t *code;     /* to be called; the trampoline follows */
	uint64_t site_end; /* behind the jump: the rest of the function, or the return thunk */
	struct trampoline trampoline;
};

/* A capture without items. */
static inline struct capture fake_capture(enum probe_point point, uint32_t fields,
					  uint8_t stack_words)
{
	return (struct capture){.point = point, .fields = fields, .stack_words = stack_words};
}

/* Memory that generated code can address, for munmap(); `protection` as in mmap(). Aborts without.
 */
void *fake_cpu_map_low(size_t size, int protection);

/* Rings with FAKE_DATA bytes, all empty, and a limit that leaves RING_SLACK. Aborts without memory.
 */
struct fake_rings fake_rings_create(uint32_t cpus);
void fake_rings_destroy(struct fake_rings *rings);
struct ring_header *fake_ring(const struct fake_rings *rings, uint32_t cpu);
/* Where writers find their deadline: in CPU 0's ring. */
uint64_t fake_deadline(const struct fake_rings *rings);
uint8_t *fake_ring_data(const struct fake_rings *rings, uint32_t cpu);

/* Make the calling thread CPU `number`. */
struct fake_cpu *fake_cpu_enter(uint32_t number);
void fake_cpu_leave(struct fake_cpu *cpu);
/* Load cpu->in into all registers, call cpu->target, store all registers into cpu->out. */
void fake_cpu_run(void);
/* Random flags that kernel code may have (its direction flag is clear), and all registers but RSP.
 */
void fake_cpu_randomise(struct fake_cpu *cpu);
/* All flags but those of arithmetic. */
bool fake_flags_preserved(const struct fake_regs *before, const struct fake_regs *after);
/* All registers but RSP and those in the mask, and such flags, are what they were; or a diagnostic.
 */
bool fake_cpu_preserved(const struct fake_cpu *cpu, uint32_t may_change);
uint64_t fake_random(void);
void fake_random_fill(void *at, size_t bytes);
/* Begin another sequence. */
void fake_random_seed(uint64_t seed);
/* Where the called function returns to. */
extern const uint8_t fake_cpu_return_address[];
/* The offsets of fake_cpu for a trampoline; the rest is 0. */
struct trampoline_kernel fake_cpu_kernel(void);

enum fake_leave { FAKE_RET, FAKE_THUNK }; /* how a return leaves */

/* A function whose site is a call (0xe8) or jump (0xe9) to the gva that is returned, where there is
 * room for TRAMPOLINE_MAX bytes of code. */
uint64_t fake_function_begin(struct fake_function *f, uint8_t opcode);
/* Fills in spec's gva, rings, saved_arrays, next and unprivileged, and generates. False with a
 * diagnostic if that fails. */
bool fake_function_create(struct trampoline_spec *spec, const struct fake_rings *rings,
			  enum fake_leave leave, struct fake_function *out);
void fake_function_destroy(struct fake_function *f);
bool fake_function_contains(const struct fake_function *f, uint64_t rip);

/* Called for an OUT of a trampoline, in a signal handler; returns where to go on. */
typedef uint64_t (*fake_host_fn)(void *arg, uint64_t rip);
/* Called for each single-stepped instruction. */
typedef void (*fake_step_fn)(void *arg, uint64_t rip);
void fake_host_install(fake_host_fn on_out, fake_step_fn on_step, void *arg);

enum { FAKE_FLAG_TRAP = 0x100 };

#endif
