/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACER_H
#define SONDE_PATCHER_TRACER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/counters.h"
#include "formats/trace/writer.h"
#include "introspect/guest/guest.h"
#include "introspect/kernel/kernel.h"
#include "introspect/slab/slab.h"
#include "patcher/probe/capture.h"
#include "patcher/probe/hit.h"
#include "patcher/probe/call-table.h"

/*
 * A tracer says which functions it wants to see and makes records of what happens there. How the
 * functions are hooked (traps, trampolines) and where the guest runs is not its business.
 *
 * To add one: write patcher/tracer-<name>.c with a `const struct tracer_ops`, and put it into the
 * table in patcher/tracers/registry.c.
 */
struct probe {
	const char *name;  /* function, for messages; lives as long as the tracer */
	uint64_t function; /* link-time address */
	uint64_t size;
	uint64_t site; /* link-time address of the mcount site */
	bool wants_return;
	struct capture entry, ret; /* what is to be recorded of a call */
	const void *data;          /* the tracer's */
};

/* Counted by a session and its tracers, from any thread. */
struct live_counters {
	_Atomic uint64_t v[COUNTER_COUNT]; /* by enum counter_id */
};

/* What a tracer works with; owned by the session, valid until the tracer is destroyed. */
struct tracer_context {
	const struct kernel *kernel;
	struct slab_view *slab;
	struct trace_writer *writer;
	struct call_table *stash;
	struct live_counters *counters;
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
	/*
	 * entry and ret may be called by several threads at once, on behalf of different vCPUs, and
	 * long after the vCPU was there: they read no guest memory that may have changed since.
	 *
	 * For a probe that wants its return, `call` is what will be remembered until then
	 * (arguments and call site filled in); else NULL.
	 */
	void (*entry)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		      struct open_call *call);
	/* Return of a call whose entry was seen; true if hit->result was recorded. */
	bool (*ret)(struct tracer *tracer, const struct probe *probe, const struct probe_hit *hit,
		    const struct open_call *call);
};

/* A tracer's implementation embeds this first. */
struct tracer {
	const struct tracer_ops *ops;
};

static inline void count_event(struct live_counters *counters, enum counter_id id, uint64_t n)
{
	if (n)
		atomic_fetch_add_explicit(&counters->v[id], n, memory_order_relaxed);
}

#endif
