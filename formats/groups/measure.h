/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GROUPS_MEASURE_H
#define SONDE_FORMATS_GROUPS_MEASURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/text.h"

/* What allocations are grouped by, and what is measured of each group. */

enum dimension {
	BY_CALLSITE,  /* key: the call site's address */
	BY_CACHE,     /* the cache's id; GROUP_NO_CACHE + type if it has none */
	BY_TYPE,      /* enum kmem_type_id */
	BY_OBJECT,    /* GROUP_STRUCT + number of a structure; as BY_CACHE if that is not known */
	BY_SIZE,      /* bytes requested */
	BY_SIZECLASS, /* the power of two that holds the bytes requested */
	BY_FUNCTION,  /* where the call site's function begins; its address without a name */
	BY_MODULE,    /* number of a module */
	BY_NODE,      /* NUMA node that was asked for; GROUP_ANY_NODE */
	BY_VCPU,      /* that allocated */
	BY_TASK,      /* that allocated: its number in the heap */
	BY_POINTER,   /* the object's address */
	NR_DIMENSIONS
};
enum { GROUP_NO_CACHE = 1 << 16, GROUP_STRUCT = 1 << 20, GROUPING_MAX = 4 };

/* Groups of what agrees in all of these. */
struct grouping {
	enum dimension by[GROUPING_MAX];
	size_t n; /* at least 1 */
};

/* NULL-terminated, by enum dimension: as users write them, and as titles of columns. */
extern const char *const dimension_names[];
extern const char *const dimension_titles[];

/* One group. Sums stay at UINT64_MAX rather than wrap; only a forged trace gets there. */
struct group {
	uint64_t keys[GROUPING_MAX];
	uint8_t role;       /* enum heap_role: what is not HEAP_PLAIN is counted elsewhere, too */
	bool is_wrapper;    /* its call sites allocate for their callers */
	uint32_t next;      /* in its hash chain, plus 1 */
	uint64_t hits;      /* allocations */
	uint64_t requested; /* bytes, by them */
	uint64_t allocated;
	uint64_t frees;      /* of this group's objects */
	uint64_t cross_cpu;  /* of these, on another vCPU than the allocation */
	uint64_t cross_node; /* of these, on a vCPU of another node than the memory */
	uint64_t lives_ns;   /* sum of the lives of those that were freed */
	uint64_t live_objects, live_bytes, live_requested;
	uint64_t peak_bytes; /* greatest live_bytes, since groups_begin_peaks() */
	uint64_t slab_bytes; /* of the slabs of a cache; 0 of other groups */
	uint64_t room_bytes; /* of these, what no live object takes */
};

enum measure {
	MEASURE_HITS,
	MEASURE_BYTES, /* allocated */
	MEASURE_REQUESTED,
	MEASURE_FRAGMENTATION, /* percent of the bytes allocated that were not requested */
	MEASURE_CROSS_CPU,
	MEASURE_CROSS_NODE,
	MEASURE_OBJECTS, /* live ones */
	MEASURE_WASTED,  /* live bytes that were not requested; of a cache, room in slabs, too */
	MEASURE_RATE,    /* allocations per second */
	MEASURE_LIFETIME,
	MEASURE_PEAK,
	MEASURE_SLABS, /* bytes of slabs */
	MEASURE_LIVE,  /* bytes */
	NR_MEASURES
};

/* NULL-terminated, by enum measure, as users write them. */
extern const char *const measure_names[];
extern const char *const measure_titles[];

/* The value that groups are sorted by. `ns` is the time that they are of. */
double measure_value(enum measure measure, const struct group *group, uint64_t ns);
/* The same as text. */
struct text measure_text(enum measure measure, const struct group *group, uint64_t ns);

/* Internal fragmentation in percent of the bytes allocated: 0 to 100. */
double group_fragmentation(const struct group *group);

/* Add the keys of a group's sums to an object. Returns 0, or -1 without memory. */
int group_put_sums(json_t *object, const struct group *group);

/* "12.3 us", "1.2 s": a duration with three digits. */
struct text measure_duration(double ns);

#endif
