/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_PROBE_H
#define SONDE_PATCHER_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "patcher/probe/capture.h"

struct tracer; /* patcher/tracers/tracer.h */

/* What a tracer wants to know of the calls of one function. */
struct probe {
	const char *name;  /* the function's, for messages; lives as long as the tracer */
	uint64_t function; /* link-time address */
	uint64_t size;     /* bytes of the function */
	uint64_t site;     /* link-time address of the mcount site */
	bool wants_return;
	struct capture entry, ret; /* what to record of a call */
	const void *data;          /* the tracer's own */
};

/* A function that a tracer cannot see the calls of, and why; all lives as long as the tracer. */
struct probe_gap {
	const char *function;
	uint64_t address; /* link-time address, 0 = none */
	const char *reason;
};

/* A probe and its tracer. `id` is its index in the session's list of all probes. */
struct probe_ref {
	struct tracer *tracer;
	const struct probe *probe;
	uint32_t id;
};

/*
 * One event at a probe: a call of its function was entered, or returned. It holds what the probe's
 * capture asks for (capture.h); all else is 0. A hit from a trap looks like a hit from a
 * trampoline. The guest may be far ahead when a tracer handles it, so that a tracer must not read
 * from the guest what is not in here.
 */
struct probe_hit {
	unsigned int vcpu;
	uint64_t time_ns;
	uint64_t key;                     /* gva of the return address on the stack */
	uint64_t call_site;               /* the return address; at entries */
	uint64_t args[CAPTURE_ARGUMENTS]; /* at entries */
	uint64_t result;                  /* at returns */
	uint64_t slab_cache;   /* gva of the kmem_cache that the result belongs to, or 0 */
	uint64_t saved, owner; /* FIELD_SAVED, FIELD_OWNER */

	const uint64_t *stack; /* words from behind the return address */
	size_t nr_stack;
	/* Objects of a bulk operation. A call about many of them is several hits, which differ only
	 * in these two. */
	const uint64_t *items;
	size_t nr_items;
};

#endif
