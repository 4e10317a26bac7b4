/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_INTERNAL_H
#define SONDE_FORMATS_HEAP_INTERNAL_H

#include "formats/base/u64-map.h"
#include "formats/heap/heap.h"
#include "formats/heap/tasks.h"

/* --- origins (origins.c) --------------------------------------------------------------------- */

enum { RECENT_ORIGIN_BITS = 10 };

struct origins {
	struct u64_map by_site; /* index of the call site's first origin */
	struct heap_origin *all;
	uint32_t count, room;
	uint32_t recent[1 << RECENT_ORIGIN_BITS]; /* index of one, by hash */
};

void origins_init(struct origins *origins);
void origins_deinit(struct origins *origins);
/* The index of a record's origin, added if it is new. -ENOMEM. */
int64_t origins_get(struct origins *origins, const struct sidecar *sidecar,
		    const struct kmem_record *record);

/* --- slabs (slabs.c) ------------------------------------------------------------------------- */

/* A page frame of a slab. */
struct slab_frame {
	uint64_t block; /* address of the slab */
	uint16_t cache; /* of the objects in it */
	bool has_cache;
};

struct slabs {
	struct u64_map frames;     /* by address >> 12 */
	struct heap_cache *caches; /* by id */
	size_t nr_caches;
};

struct heap {
	const struct sidecar *sidecar;
	heap_change_fn *fn;
	void *arg;
	/* A slab's first object and the pages below it have the same address: two maps. */
	struct u64_map objects, blocks; /* struct heap_object */
	struct slabs slabs;
	struct origins origins;
	struct heap_tasks tasks;
	uint16_t task; /* of what is allocated */
	struct heap_totals totals;
};

void slabs_init(struct slabs *slabs);
void slabs_deinit(struct slabs *slabs);

/* A block of the slab allocator is there. Returns 0 or -ENOMEM. */
int slabs_add_block(struct heap *heap, uint64_t ptr, const struct heap_object *block);
/* Such a block goes. */
void slabs_remove_block(struct heap *heap, uint64_t ptr, const struct heap_object *block);
/* Where a new slab object lies: enum heap_place, or -ENOMEM. Counts it in its cache. */
int slabs_place_object(struct heap *heap, uint64_t ptr, const struct heap_object *object);
/* Have the processor load what a change of an object at ptr will look at. */
void slabs_prefetch(const struct slabs *slabs, uint64_t ptr);
/* An object in a slab goes. */
void slabs_forget_object(struct heap *heap, const struct heap_object *object);

#endif
