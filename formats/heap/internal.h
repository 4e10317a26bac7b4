/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_INTERNAL_H
#define SONDE_FORMATS_HEAP_INTERNAL_H

#include "formats/base/u64-map.h"
#include "formats/heap/callers.h"
#include "formats/heap/heap.h"
#include "formats/heap/tasks.h"

/* --- lives (lives.c) ------------------------------------------------------------------------- */

/*
 * What is live, by address: a hash table with chains, whose links are in the objects. Each event
 * looks for an object, so it takes fewer instructions than a struct u64_map: nothing moves when an
 * object goes, and an object and its address are in one line of the processor's cache. Addresses
 * come from guests and trace files: the hash is multiply-shift with a secret factor, of which two
 * addresses collide no more often than by chance. Memory grows with the greatest number of objects
 * at a time.
 */
struct life {
	uint64_t ptr;
	uint32_t next; /* index of the next one in its chain, or of the next free one; 0: none */
	struct heap_object object;
} __attribute__((aligned(64)));

enum { LIFE_FREE = HEAP_PLACES /* place of an entry that has no object */ };

struct lives {
	struct life *all; /* index 0 is none */
	uint32_t *heads;  /* of chains, by hash: an index */
	uint32_t room;    /* of `all`: a power of two; there are four times as many heads */
	uint32_t used;    /* entries of `all` that were ever used, with the first */
	uint32_t free;    /* the first free one of these; 0: none */
	unsigned int shift;
	uint64_t factor; /* odd */
};

/* Returns 0 or -ENOMEM; then there is nothing to deinit, but it does no harm. */
int lives_init(struct lives *lives);
void lives_deinit(struct lives *lives);

static inline uint32_t *lives_head(const struct lives *lives, uint64_t ptr)
{
	return &lives->heads[ptr * lives->factor >> lives->shift];
}

/* The object, or NULL. Valid until the next one is inserted. */
static inline struct heap_object *lives_find(const struct lives *lives, uint64_t ptr)
{
	struct life *life;

	for (uint32_t i = *lives_head(lives, ptr); i; i = life->next) {
		life = &lives->all[i];
		if (life->ptr == ptr)
			return &life->object;
	}
	return NULL;
}

/* What leads to an object: the index of its entry, or 0. Valid until the next one is inserted. */
static inline uint32_t *lives_link(const struct lives *lives, uint64_t ptr)
{
	uint32_t *link = lives_head(lives, ptr);

	while (*link && lives->all[*link].ptr != ptr)
		link = &lives->all[*link].next;
	return link;
}

/* Remove the object that a link leads to, that of entry i. */
static inline void lives_unlink_life(struct lives *lives, uint32_t *link, uint32_t i)
{
	struct life *life = &lives->all[i];

	*link = life->next;
	life->next = lives->free;
	life->object.place = LIFE_FREE;
	lives->free = i;
}

static inline void lives_unlink(struct lives *lives, uint32_t *link)
{
	lives_unlink_life(lives, link, *link);
}

/* For lives_insert(): an address that is not there. NULL: no memory. */
struct heap_object *lives_add(struct lives *lives, uint64_t ptr);

/* The object at ptr, inserted if there is none, which *is_new (may be NULL) says: the caller sets
 * all of a new one. NULL: no memory. */
static inline struct heap_object *lives_insert(struct lives *lives, uint64_t ptr, bool *is_new)
{
	struct heap_object *object = lives_find(lives, ptr);

	if (is_new)
		*is_new = !object;
	return object ? object : lives_add(lives, ptr);
}

/* Of an object that was found. */
void lives_remove(struct lives *lives, const struct heap_object *object);

/* Each of them, in no order: start with *pos = 0; NULL at the end. Must not change meanwhile. */
struct heap_object *lives_next(const struct lives *lives, size_t *pos, uint64_t *ptr);

/* Have the processor load where a chain begins, and later the first object of the chain. */
static inline void lives_prefetch_head(const struct lives *lives, uint64_t ptr)
{
	if (lives->used * sizeof(struct life) > U64_MAP_CACHED)
		u64_map_load_soon(lives_head(lives, ptr));
}

static inline void lives_prefetch(const struct lives *lives, uint64_t ptr)
{
	if (lives->used * sizeof(struct life) > U64_MAP_CACHED)
		u64_map_load_soon(&lives->all[*lives_head(lives, ptr)]);
}

/* Bytes of memory that they take. */
size_t lives_memory(const struct lives *lives);

/* --- origins (origins.c) --------------------------------------------------------------------- */

enum { RECENT_ORIGIN_BITS = 10 };

/* The origin of allocations whose briefs (kmem.h) have this key: see origins_key(). */
struct brief_origin {
	uint64_t key;
	uint32_t origin;
};

struct origins {
	struct u64_map by_site; /* index of the call site's first origin */
	struct heap_origin *all;
	uint32_t count, room;
	uint32_t recent[1 << RECENT_ORIGIN_BITS]; /* index of one, by hash */
	struct brief_origin of_briefs[1 << RECENT_ORIGIN_BITS]; /* likewise */
};

void origins_init(struct origins *origins);
void origins_deinit(struct origins *origins);
/* For origins_get(): an origin that is not at hand. */
int64_t origins_find(struct origins *origins, const struct sidecar *sidecar,
		     const struct kmem_record *record, uint64_t call_site);

static inline bool origin_is_of(const struct heap_origin *origin, const struct kmem_record *record,
				uint64_t call_site)
{
	return origin->call_site == call_site && origin->cache == record->cache &&
	       origin->type == record->type_id;
}

static inline uint32_t *origins_recent(struct origins *origins, const struct kmem_record *record,
				       uint64_t call_site)
{
	uint64_t value =
		call_site ^ (uint64_t)record->cache << 48 ^ (uint64_t)record->type_id << 40;

	value *= UINT64_C(0x9e3779b97f4a7c15);
	return &origins->recent[value >> (64 - RECENT_ORIGIN_BITS)];
}

/* The index of the origin of a record that is charged to a call site, added if it is new. -ENOMEM.
 */
static inline int64_t origins_get(struct origins *origins, const struct sidecar *sidecar,
				  const struct kmem_record *record, uint64_t call_site)
{
	const uint32_t recent = *origins_recent(origins, record, call_site);

	if (recent < origins->count && origin_is_of(&origins->all[recent], record, call_site))
		return recent;
	return origins_find(origins, sidecar, record, call_site);
}

/* What a block is used for. */
static inline enum heap_role origins_role(const struct origins *origins,
					  const struct heap_object *block)
{
	const struct heap_origin *origin = &origins->all[block->origin];

	return origin->is_mixed ? block->turned : origin->role;
}

/* --- slabs (slabs.c) ------------------------------------------------------------------------- */

/* A page frame of a slab. */
struct slab_frame {
	uint64_t block; /* address of the slab */
	uint16_t cache; /* of the objects in it */
	bool has_cache;
};

enum { RECENT_FRAMES = 512 };

struct slabs {
	struct u64_map frames; /* by address >> 12 */
	/* Of some of those that have a cache: key of a frame plus 1, by its lowest bits. */
	uint64_t recent[RECENT_FRAMES];
	struct heap_cache *caches; /* by id */
	size_t nr_caches;
};

/* --- pages that were moved (moved.c) --------------------------------------------------------- */

enum { RECENT_FREERS_BITS = 9 };

/* A call site that frees pages. */
struct freer {
	uint64_t call_site;
	bool is_known;
	bool moves; /* what was in them is in others */
};

struct moved {
	struct freer recent[1 << RECENT_FREERS_BITS]; /* by hash */
	uint64_t bytes;                               /* freed so */
	uint64_t target_bytes;                        /* allocated to move pages to */
};

struct heap {
	const struct sidecar *sidecar;
	heap_change_fn *fn;
	void *arg;
	/* A slab's first object and the pages below it have the same address: two maps. */
	struct lives objects, blocks;
	struct slabs slabs;
	struct origins origins;
	struct callers callers;
	struct heap_tasks tasks;
	struct moved moved;
	uint16_t task; /* of what is allocated */
	struct heap_totals totals;
};

/* Whether what a call site allocates is for pages to be moved to. */
bool heap_is_target(const struct sidecar *sidecar, uint64_t call_site);
/* For heap_moves(): a call site that is not at hand. */
bool heap_find_freer(struct heap *heap, uint64_t call_site);

static inline struct freer *heap_recent_freer(struct heap *heap, uint64_t call_site)
{
	const uint64_t hash = call_site * UINT64_C(0x9e3779b97f4a7c15);

	return &heap->moved.recent[hash >> (64 - RECENT_FREERS_BITS)];
}

/* Whether what a call site frees is in other pages now. */
static inline bool heap_moves(struct heap *heap, uint64_t call_site)
{
	const struct freer *freer = heap_recent_freer(heap, call_site);

	return freer->is_known && freer->call_site == call_site ? freer->moves
								: heap_find_freer(heap, call_site);
}

/* For heap_brief_origin() (usual.h): one that is not at hand, which *out takes from now on. Returns
 * 0 or -ENOMEM. */
int heap_find_brief_origin(struct heap *heap, const struct kmem_brief *brief,
			   struct brief_origin *out);

void slabs_init(struct slabs *slabs);
void slabs_deinit(struct slabs *slabs);

/* A block of the slab allocator is there. Returns 0 or -ENOMEM. */
int slabs_add_block(struct heap *heap, uint64_t ptr, const struct heap_object *block);
/* Such a block goes. Returns the cache that it was a slab of; 0: not known. */
uint16_t slabs_remove_block(struct heap *heap, uint64_t ptr, const struct heap_object *block);
/* For slabs_place_object(): an object whose frame is not at hand. */
int slabs_search_place(struct heap *heap, uint64_t ptr, const struct heap_object *object);

enum { FRAME_SHIFT = 12 };

/* Most allocations are out of a slab that another one was out of lately. */
static inline uint64_t *slabs_recent(struct slabs *slabs, uint64_t frame)
{
	return &slabs->recent[frame % RECENT_FRAMES];
}

/* An object in a slab is there, of a cache that is known. */
static inline void slabs_count_object(struct slabs *slabs, const struct heap_object *object)
{
	struct heap_cache *cache = &slabs->caches[object->cache];

	cache->is_used = true;
	cache->misses = 0;
	heap_sum_add(&cache->objects, 1, object->bytes);
}

/* Where a new slab object lies: enum heap_place, or -ENOMEM. Counts it in its cache. */
static inline int slabs_place_object(struct heap *heap, uint64_t ptr,
				     const struct heap_object *object)
{
	struct slabs *slabs = &heap->slabs;
	const uint64_t frame = ptr >> FRAME_SHIFT;

	if (*slabs_recent(slabs, frame) != frame + 1 || object->cache >= slabs->nr_caches ||
	    object->bytes >= HEAP_PAGE_SIZE)
		return slabs_search_place(heap, ptr, object);
	slabs_count_object(slabs, object);
	return HEAP_IN_SLAB;
}

/* Have the processor load what an allocation at ptr will look at. */
static inline void slabs_prefetch(const struct slabs *slabs, uint64_t ptr)
{
	u64_map_prefetch(&slabs->frames, ptr >> FRAME_SHIFT);
}

/* An object in a slab goes. */
static inline void slabs_forget_object(struct heap *heap, const struct heap_object *object)
{
	heap_sum_remove(&heap->slabs.caches[object->cache].objects, 1, object->bytes);
}

#endif
