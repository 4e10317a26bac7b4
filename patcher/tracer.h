/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACER_H
#define SONDE_PATCHER_TRACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/error.h"
#include "formats/trace-writer.h"
#include "introspect/guest.h"
#include "introspect/kernel.h"
#include "patcher/stash.h"

/*
 * A tracer says which functions it wants to see and makes records of what happens there. How the
 * functions are hooked (traps, trampolines) and where the guest runs is not its business.
 *
 * To add one: write patcher/tracer-<name>.c with a `const struct tracer_ops`, and put it into the
 * table in patcher/trace-spec.c.
 */
struct probe {
	const char *name;  /* function, for messages; lives as long as the tracer */
	uint64_t function; /* link-time address */
	uint64_t size;
	uint64_t site; /* link-time address of the mcount site */
	bool wants_return;
	const void *data; /* the tracer's */
};

/* Events that are counted and not recorded; shared by all tracers of a session. */
struct trace_counters {
	_Atomic uint64_t null_allocs, null_frees, nested, unpaired_returns, lost;
};

/* What a tracer works with; owned by the session, valid until the tracer is destroyed. */
struct tracer_context {
	const struct kernel *kernel;
	struct trace_writer *writer;
	struct stash *stash;
	struct trace_counters *counters;
};

/* A probe was hit by a vCPU. */
struct probe_hit {
	unsigned int vcpu;
	uint64_t time_ns;
	const struct guest_regs *regs;
	uint64_t call_site; /* the return address on the stack */
};

struct tracer;
struct tracer_ops {
	const char *name;
	const char *help;           /* one line for `--trace help` */
	const char *const *filters; /* words allowed after "name:", NULL-terminated */

	/* filters: bit i set = filters[i] was named; 0 = none named, trace all. */
	int (*create)(const struct tracer_context *context, uint32_t filters, struct tracer **out,
		      struct error *err);
	void (*destroy)(struct tracer *tracer);
	/* The probes, owned by the tracer, constant. */
	const struct probe *(*probes)(struct tracer *tracer, size_t *n);
	/* Called on the vCPU's thread, several vCPUs at once. For a probe that wants its return,
	 * `call` is what will be remembered until then (arguments filled in); else NULL. */
	void (*entry)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		      struct stash_entry *call);
	/* Return of a call whose entry was seen; true if a result was recorded. regs->rax has it.
	 */
	bool (*ret)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		    const struct stash_entry *call);
};

/* A tracer's implementation embeds this first. */
struct tracer {
	const struct tracer_ops *ops;
};

static inline void count_event(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* The n-th register argument of the System V ABI (0..5). */
static inline uint64_t guest_regs_argument(const struct guest_regs *regs, unsigned int n)
{
	const uint64_t arguments[] = {regs->rdi, regs->rsi, regs->rdx,
				      regs->rcx, regs->r8,  regs->r9};

	return arguments[n];
}

#endif
