/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_TRACE_INFO_H
#define SONDE_FORMATS_EVENT_TRACE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GFP_NAMES_MAX = 64 };

/* A name that the guest's kernel has for one or several bits of its GFP flags. */
struct gfp_name {
	uint64_t mask;
	char name[32];
};

/* What the sidecar `sonde.json` says about a trace besides its records. Plain data, copied whole.
 */
struct trace_info {
	char tool_version[32];  /* Sonde's version that recorded */
	char mode[16];          /* "trap" or "exitless" */
	char memory[160];       /* how the guest's memory was read, and why so */
	char tracers[128];      /* trace specs, comma separated: "kmem" */
	char banner[256];       /* the guest's linux_banner, without newline */
	char build_id[65];      /* hex; empty if the image has none */
	char symbol_source[32]; /* "symtab", "kallsyms", "kallsyms in memory" */
	int64_t virt_slide;     /* run-time minus link-time virtual address of the kernel image */
	uint64_t phys_base;     /* guest-physical address of _text */
	char clock[32];         /* what the time stamps count: "kvmclock" */
	int64_t started_realtime_ns; /* host CLOCK_REALTIME at the start of tracing */
	int64_t started_ns;          /* the trace clock at the same moment */
	char ended[80]; /* what else than its user ended tracing: "the domain was reset"; or empty
			 */
	bool from_first_allocation; /* tracing began before the guest's first slab allocation */
	uint64_t page_size;         /* 4096 */
	struct gfp_name gfp_names[GFP_NAMES_MAX]; /* in the order in which they are to be used up */
	size_t nr_gfp_names;

	/* counted but not recorded */
	uint64_t null_allocs; /* allocations that returned NULL (or ZERO_SIZE_PTR) */
	uint64_t null_frees;  /* frees of NULL or ZERO_SIZE_PTR */
	uint64_t nested;      /* entry points entered from within another one for the same object */
	uint64_t unpaired_returns; /* returns whose entry came before tracing began */
	uint64_t in_flight;        /* entries whose return had not come when tracing ended */
	uint64_t lost;             /* events known lost for any other reason */
	bool cut;        /* converted from a trace of which the last records were missing */
	uint64_t pauses; /* times tracing was switched off and on again: unseen events between */
	uint64_t yields; /* times the guest's own ftrace changed its sites: unseen events meanwhile
			    ... */
	uint64_t yielded_ns;        /* ... for so long */
	uint64_t yielded_functions; /* ... and how many functions it then kept for a time */

	/* traps taken away because so many calls came in a second, until it was over */
	uint64_t max_rate;     /* calls per second; 0: no bound */
	uint64_t samplings;    /* how often: then this is a sample ... */
	uint64_t unsampled_ns; /* ... as nothing was seen for so long ... */
	uint64_t tracing_ns;   /* ... of so long that tracing was on; 0: not known */

	/* what recording has cost the guest's vCPUs */
	uint64_t traps;        /* exits by a trap at a traced place */
	uint64_t doorbells;    /* exits that woke the drain thread */
	uint64_t ring_records; /* records that vCPUs wrote into rings without an exit */
	uint64_t ring_waits;   /* exits because a ring was full ... */
	uint64_t
		ring_wait_ns; /* ... and the host time spent waiting for room, all vCPUs together */
};

#endif
