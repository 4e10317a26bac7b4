/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_TRACE_INFO_H
#define SONDE_FORMATS_EVENT_TRACE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/counters.h"
#include "formats/event/kmem.h"

enum { TRACE_GAPS_MAX = 32, TRACE_NODES_MAX = 64 };

/* A function whose events are not in the trace, and why. */
struct trace_gap {
	char function[64];
	char reason[160];
};

/* A NUMA node of the guest. */
struct trace_node {
	uint32_t number;
	uint64_t start, bytes; /* its memory, as pointers of kmem events have it; holes included */
	uint64_t vcpus;        /* by bit: those of the first 64 that it is the nearest memory of */
};

/* What the sidecar says about a trace as a whole. Plain data, copied whole. */
struct trace_info {
	char tool_version[32];  /* Sonde's version that recorded */
	char writer[16];        /* the verb that writes or wrote the trace: "run", "convert" */
	char mode[16];          /* "trap" or "exitless" */
	char memory[160];       /* how the guest's memory was read, and why this way */
	char tracers[128];      /* trace specs, comma separated: "kmem" */
	char banner[256];       /* the guest's linux_banner, without newline */
	char build_id[65];      /* hex; empty if the image has none */
	char slab_allocator[8]; /* the guest's: "slub", "slab", "slob"; empty: not known */
	char symbol_source[32]; /* "symtab", "kallsyms", "kallsyms in memory", "System.map" */
	char btf_source[8];     /* "kernel", "given", "none"; empty: not known */
	int64_t virt_slide;     /* run-time minus link-time virtual address of the kernel image */
	uint64_t text_gpa;      /* guest-physical address of _text */
	char clock[32];         /* what the time stamps count: "kvmclock" */
	int64_t started_realtime_ns; /* host CLOCK_REALTIME at the start of tracing */
	int64_t started_ns;          /* the trace clock at the same moment */
	char ended[80]; /* why tracing ended, if not by the user: "the domain was reset" */
	bool cut;       /* converted from a trace whose last records were missing */
	bool losses_unknown; /* converted from a trace that does not say what was lost */
	char part[256]; /* of what was recorded, if not all of it was copied: "from 5.000 s on" */
	bool chosen_events;         /* that part: not all events of its time and instances */
	bool from_first_allocation; /* tracing began before the guest's first slab allocation */
	uint64_t page_size;         /* 4096 */
	uint64_t stack_bytes; /* of each task's stack, and of each interrupt stack; 0: not known */
	struct gfp_name gfp_names[GFP_NAMES_MAX]; /* in the order in which flags are named */
	size_t nr_gfp_names;
	struct trace_gap gaps[TRACE_GAPS_MAX];
	size_t nr_gaps;
	struct trace_node nodes[TRACE_NODES_MAX];
	size_t nr_nodes; /* 0: not known, or a kernel without NUMA */

	uint64_t max_rate; /* calls per second from which on tracing is sampled; 0: no bound */
	struct trace_counters counters;
};

/* Whether the trace tells nodes of memory apart. */
static inline bool trace_has_nodes(const struct trace_info *info)
{
	return info->nr_nodes > 1;
}

/* Whether memory at an address, as pointers of kmem events have it, and a vCPU belong to different
 * nodes. False if one of the two is not known. */
bool trace_nodes_differ(const struct trace_info *info, uint64_t ptr, unsigned int vcpu);

#endif
