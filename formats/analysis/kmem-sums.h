/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_KMEM_SUMS_H
#define SONDE_FORMATS_ANALYSIS_KMEM_SUMS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/event/kmem.h"

/*
 * Sums over allocations, for each call site, cache, size or address. Takes events one at a time,
 * in the order of their time stamps. Memory grows with the number of live objects and of groups,
 * not with the length of the trace.
 */
enum kmem_by {
	KMEM_BY_CALLSITE, /* key: the call site's address */
	KMEM_BY_CACHE,    /* key: the cache's id; KMEM_NO_CACHE + type if it has none */
	KMEM_BY_SIZE,     /* key: bytes requested */
	KMEM_BY_POINTER,  /* key: the object's address */
};
enum { KMEM_NO_CACHE = 1 << 16 };

enum kmem_sort {
	KMEM_SORT_HITS,
	KMEM_SORT_BYTES, /* allocated */
	KMEM_SORT_REQUESTED,
	KMEM_SORT_FRAGMENTATION,
	KMEM_SORT_CROSS_CPU,
	KMEM_SORT_LIVE, /* bytes */
};

/* Sums stay at UINT64_MAX rather than wrap; only a forged trace gets there. */
struct kmem_group {
	uint64_t key;
	uint64_t hits;            /* allocations */
	uint64_t bytes_requested; /* by them */
	uint64_t bytes_allocated;
	uint64_t cross_cpu_frees; /* of this group's objects, on another vCPU than the allocation */
	uint64_t live_objects;    /* not freed in the trace */
	uint64_t live_bytes;      /* allocated bytes of these */
};

struct kmem_totals {
	struct kmem_group sum; /* over all groups; sum.hits = allocations */
	struct kmem_group
		by_type[KMEM_TYPE_COUNT]; /* parts of `sum`; pages include those of slabs */
	uint64_t free_events;
	uint64_t unknown_frees; /* of objects whose allocation is not in the trace */
	uint64_t missed_frees; /* allocations at the address of a live object, now taken as freed */
	uint64_t invalid;      /* records with an unknown event or type id, left out */
	uint64_t records;
	uint64_t peak_live_objects;
	int64_t first_ns, last_ns; /* smallest and greatest time stamp; 0 without records */
};

enum { KMEM_ALL_TYPES = -1 };

struct kmem_sums;

/* `type`: only objects of this enum kmem_type_id, or KMEM_ALL_TYPES. NULL: no memory. */
struct kmem_sums *kmem_sums_create(enum kmem_by by, int type);

/* NULL-safe. */
void kmem_sums_destroy(struct kmem_sums *sums);

/* Returns 0 or -ENOMEM. */
int kmem_sums_add(struct kmem_sums *sums, const struct event *event);

/* Valid until the next kmem_sums_add() or destroy. */
const struct kmem_totals *kmem_sums_totals(const struct kmem_sums *sums);

/*
 * Sort the groups, greatest first (equal ones by bytes, hits, key). Returns their number.
 * *groups belongs to the sums; no event may be added afterwards.
 */
size_t kmem_sums_sort(struct kmem_sums *sums, enum kmem_sort sort,
		      const struct kmem_group **groups);

/* Bytes of memory it holds. */
size_t kmem_sums_memory(const struct kmem_sums *sums);

/* Internal fragmentation in percent of the bytes allocated: 0 to 100. */
double kmem_fragmentation(const struct kmem_group *group);

#endif
