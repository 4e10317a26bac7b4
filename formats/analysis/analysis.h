/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_ANALYSIS_H
#define SONDE_FORMATS_ANALYSIS_ANALYSIS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/event/record-stream.h"

/*
 * Who allocates what: adds up events, one at a time, in the order of their time stamps. Memory
 * grows with the number of objects live at a time and the number of groups, not with the trace.
 */
enum analysis_by {
	ANALYSIS_BY_CALLSITE, /* key: the call site's address */
	ANALYSIS_BY_CACHE,    /* key: the cache's id; ANALYSIS_NO_CACHE + type if it has none */
	ANALYSIS_BY_SIZE,     /* key: bytes requested */
	ANALYSIS_BY_POINTER,  /* key: the object's address */
};
enum { ANALYSIS_NO_CACHE = 1 << 16 };

enum analysis_sort {
	ANALYSIS_SORT_HITS,
	ANALYSIS_SORT_BYTES, /* allocated */
	ANALYSIS_SORT_REQUESTED,
	ANALYSIS_SORT_FRAGMENTATION,
	ANALYSIS_SORT_CROSS_CPU,
	ANALYSIS_SORT_LIVE, /* bytes */
};

/* Sums stay at UINT64_MAX rather than wrap: only a forged trace gets there. */
struct analysis_group {
	uint64_t key;
	uint64_t hits;            /* allocations */
	uint64_t bytes_requested; /* by them */
	uint64_t bytes_allocated;
	uint64_t cross_cpu_frees; /* of objects allocated here, on another vCPU than the allocation
				   */
	uint64_t live_objects;    /* not freed by the end of the trace */
	uint64_t live_bytes;      /* allocated bytes of these */
};

struct analysis_totals {
	struct analysis_group sum; /* over all groups; sum.hits = allocations */
	struct analysis_group by_type[KMEM_TYPE_COUNT]; /* parts of it; pages hold slabs too */
	uint64_t free_events;
	uint64_t unknown_frees; /* of objects whose allocation is not in the trace */
	uint64_t missed_frees; /* allocations at the address of a live object, now taken as freed */
	uint64_t invalid;      /* records with an unknown event or type id, left out */
	uint64_t records;
	uint64_t peak_live_objects;
	int64_t first_ns, last_ns; /* smallest and greatest time stamp; 0 without records */
};

enum { ANALYSIS_ALL_TYPES = -1 };

struct analysis;

/* `type`: only objects of this enum kmem_type_id, or ANALYSIS_ALL_TYPES. NULL: no memory. */
struct analysis *analysis_create(enum analysis_by by, int type);

/* NULL-safe. */
void analysis_destroy(struct analysis *analysis);

/* Returns 0 or -ENOMEM. */
int analysis_add(struct analysis *analysis, const struct trace_event *event);

/* Valid until the next analysis_add() or destroy. */
const struct analysis_totals *analysis_totals(const struct analysis *analysis);

/*
 * Order the groups, greatest first (equal ones by bytes, hits, key). Returns their number; *groups
 * belongs to the analysis, which must not be added to any more.
 */
size_t analysis_sort(struct analysis *analysis, enum analysis_sort sort,
		     const struct analysis_group **groups);

/* Bytes of memory it holds. */
size_t analysis_memory(const struct analysis *analysis);

/* Internal fragmentation in percent of the bytes allocated: 0 to 100. */
double analysis_fragmentation(const struct analysis_group *group);

#endif
