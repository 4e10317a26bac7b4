/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_FAKE_GUEST_H
#define SONDE_TESTS_LIB_FAKE_GUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "introspect/guest/guest.h"
#include "introspect/kernel/kernel.h"
#include "tests/lib/fake-breaks.h"
#include "tests/lib/fake-kernel.h"

/*
 * The fake kernel (fake-kernel.h) with code and vCPUs: a `struct guest` with traps.
 * fake_guest_run() executes its few instructions, so that patches and whole trace sessions run
 * without KVM. Memory has no host mapping, so that every access goes through the operations and can
 * be made to fail. Scratch memory is mapped, and unmapped when it is removed. Time stamp counters
 * count nanoseconds of the host's monotonic clock; no two readings are equal.
 *
 * The instructions are nop (90, 0f 1f 00, 0f 1f 44 00 00), mov $imm64,%rax, mov %rdi,%rax,
 * test %rdi,%rdi, jz rel8/rel32, jmp rel8/rel32, call, ret, out, and hlt, which ends the run.
 */
enum { FAKE_VCPUS = 4 };

/* A vCPU. Its stack is 16 KiB in the direct map. */
struct fake_vcpu {
	struct guest_regs regs;
	struct guest_sregs sregs; /* at first those of an idle 64-bit kernel */
	uint64_t tsc_behind;      /* its time stamp counter, behind the others' */
	bool zero;                /* ZF */
};

struct fake_guest {
	struct guest guest; /* first: the operations get it */
	struct fake_kernel base;
	struct kernel kernel;           /* of this guest */
	struct guest_region regions[2]; /* RAM; scratch memory */
	size_t nr_regions;
	struct fake_vcpu vcpus[FAKE_VCPUS];

	struct fake_breaks breaks;
	guest_trap_fn *trap_fn;
	void *trap_arg;
	pthread_mutex_t gate;         /* held by the thread that holds the guest stopped */
	_Atomic unsigned int stopped; /* nesting depth now */
	_Atomic bool paused;          /* by the administrator */
	_Atomic unsigned int stops;   /* ever */
	_Atomic unsigned int polls;   /* of the run state, ever */
	/* Called at each stop, before stop() returns; may be NULL. Tests set it while threads stop
	 * the guest. */
	void (*_Atomic on_stop)(struct fake_guest *fg);
	bool mute;                      /* the vCPUs' control registers cannot be read */
	uint64_t ignored_gpa;           /* no write changes this byte; 0 = none */
	uint64_t failing_gpa;           /* a write that touches this byte fails; 0 = none */
	uint64_t missing_gpa;           /* a read that touches it fails with -EFAULT; likewise */
	uint64_t failing_break;         /* gva of a breakpoint that is not removed; likewise */
	unsigned int failing_resumes;   /* so many of the next ones fail, of the outermost stop */
	_Atomic uint64_t reads, writes; /* of guest memory, ever */
	_Atomic uint64_t clock;
	_Atomic uint64_t last_tsc;
};

/* 0 or -errno. `fg` must not move afterwards. */
int fake_guest_create(struct fake_guest *fg);
void fake_guest_destroy(struct fake_guest *fg);

/* Add symbols to the image: names and image offsets, in any order, NULL-terminated. */
struct fake_symbol {
	const char *name;
	uint64_t offset;
};
int fake_guest_add_symbols(struct fake_guest *fg, const struct fake_symbol *symbols);
/* As if the compiler had inlined it: its symbol is gone. */
int fake_guest_inline(struct fake_guest *fg, const char *function);

/* gva of an image offset. */
uint64_t fake_gva(uint64_t offset);
/* The bytes of guest memory at an image offset. */
uint8_t *fake_text(struct fake_guest *fg, uint64_t offset);

/* Code at an image offset, in the image and in guest memory. */
void fake_code(struct fake_guest *fg, uint64_t offset, const void *bytes, size_t size);
/* A 5-byte `call`, `jmp` (opcode e8, e9) to another image offset; returns the offset behind it. */
uint64_t fake_branch(struct fake_guest *fg, uint64_t offset, uint8_t opcode, uint64_t target);
/* mov $value,%rax; returns the offset behind it. */
uint64_t fake_load_rax(struct fake_guest *fg, uint64_t offset, uint64_t value);

/* gva of the highest stack slot of a vCPU. */
uint64_t fake_stack_top(unsigned int vcpu);

/*
 * Run a vCPU from its RIP to a HLT. Returns the number of traps that the handler took; -1: the vCPU
 * came to another instruction (INT3, or the middle of one), or did not end.
 */
int fake_guest_run(struct fake_guest *fg, unsigned int vcpu);

/* Call the function at an image offset from the code at `from` (where a `call` is made), and run.
 */
int fake_guest_call(struct fake_guest *fg, unsigned int vcpu, uint64_t from, uint64_t function);

#endif
