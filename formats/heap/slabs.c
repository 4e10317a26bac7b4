/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which blocks of pages hold slab objects, and of which cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/heap/internal.h"

enum {
	MAX_PAGES = 1024,   /* of a block: order 10 */
	MAX_SLAB_ORDER = 5, /* that is looked for */
	ENOUGH_VOTES = 4,   /* blocks with objects in them, until their call site is one of slabs */
	ENOUGH_MISSES = 256, /* objects of a cache in a row, until their slabs are not looked for */
};

void slabs_init(struct slabs *slabs)
{
	u64_map_init(&slabs->frames, sizeof(struct slab_frame));
}

void slabs_deinit(struct slabs *slabs)
{
	u64_map_deinit(&slabs->frames);
	free(slabs->caches);
}

__attribute__((cold, noinline)) static bool add_caches(struct slabs *slabs, uint16_t id)
{
	const size_t n = id < 128 ? 256 : (size_t)id * 2;
	struct heap_cache *bigger = reallocarray(slabs->caches, n, sizeof(*bigger));

	if (!bigger)
		return false;
	memset(bigger + slabs->nr_caches, 0, (n - slabs->nr_caches) * sizeof(*bigger));
	slabs->caches = bigger;
	slabs->nr_caches = n;
	return true;
}

/* Where the cache of an object is kept. NULL: no memory. */
static struct heap_cache *cache_of(struct slabs *slabs, uint16_t id)
{
	if (id >= slabs->nr_caches && !add_caches(slabs, id))
		return NULL;
	slabs->caches[id].is_used = true;
	return &slabs->caches[id];
}

static uint64_t count_pages(const struct heap_object *block)
{
	uint64_t pages = block->bytes >> FRAME_SHIFT;

	return pages < MAX_PAGES ? pages : MAX_PAGES;
}

/* --- frames that have a cache, at hand ------------------------------------------------------- */

static void forget_recent(struct slabs *slabs, uint64_t frame)
{
	if (*slabs_recent(slabs, frame) == frame + 1)
		*slabs_recent(slabs, frame) = 0;
}

/* --- blocks ---------------------------------------------------------------------------------- */

int slabs_add_block(struct heap *heap, uint64_t ptr, const struct heap_object *block)
{
	for (uint64_t i = 0; i < count_pages(block); i++) {
		struct slab_frame *frame =
			u64_map_insert(&heap->slabs.frames, (ptr >> FRAME_SHIFT) + i, NULL);

		if (!frame)
			return -ENOMEM;
		forget_recent(&heap->slabs, (ptr >> FRAME_SHIFT) + i);
		*frame = (struct slab_frame){.block = ptr};
	}
	return 0;
}

uint16_t slabs_remove_block(struct heap *heap, uint64_t ptr, const struct heap_object *block)
{
	uint16_t cache = 0;

	for (uint64_t i = 0; i < count_pages(block); i++) {
		uint64_t key = (ptr >> FRAME_SHIFT) + i;
		const struct slab_frame *frame = u64_map_find(&heap->slabs.frames, key);

		if (!frame || frame->block != ptr)
			continue;
		if (!i && frame->has_cache) {
			cache = frame->cache;
			heap_sum_remove(&heap->slabs.caches[cache].slabs, 1, block->bytes);
		}
		u64_map_remove(&heap->slabs.frames, key);
		forget_recent(&heap->slabs, key);
	}
	return cache;
}

/* The first object of a slab says whose it is. */
__attribute__((cold, noinline)) static void give_to_cache(struct heap *heap, uint64_t ptr,
							  struct heap_cache *cache, uint16_t id)
{
	const struct heap_object *block = lives_find(&heap->blocks, ptr);

	for (uint64_t i = 0; block && i < count_pages(block); i++) {
		struct slab_frame *frame =
			u64_map_find(&heap->slabs.frames, (ptr >> FRAME_SHIFT) + i);

		if (!frame || frame->block != ptr)
			continue;
		frame->cache = id;
		frame->has_cache = true;
	}
	if (block)
		heap_sum_add(&cache->slabs, 1, block->bytes);
}

/* All blocks of an origin have another role than was thought. */
static void change_role(struct heap *heap, struct heap_origin *origin, enum heap_role role)
{
	struct heap_totals *totals = &heap->totals;
	uint64_t blocks = 0;
	size_t pos = 0;
	uint64_t ptr;
	const struct heap_object *block;

	while ((block = lives_next(&heap->blocks, &pos, &ptr)))
		blocks += &heap->origins.all[block->origin] == origin;
	heap_sum_remove(&totals->pages[origin->role], blocks, origin->live_bytes);
	heap_sum_add(&totals->pages[role], blocks, origin->live_bytes);
	origin->role = (uint8_t)role;
}

/* A block of a mixed origin has another use than was known. */
static bool turn(struct heap *heap, struct heap_object *block, enum heap_role role)
{
	struct heap_totals *totals = &heap->totals;

	if (block->turned != HEAP_PLAIN)
		return block->turned == role;
	heap_sum_remove(&totals->pages[HEAP_PLAIN], 1, block->bytes);
	heap_sum_add(&totals->pages[role], 1, block->bytes);
	block->turned = (uint8_t)role;
	return true;
}

/* A block has objects in it, or is one. Returns whether it has the role then. */
static bool vote(struct heap *heap, struct heap_object *block, enum heap_role role)
{
	struct heap_origin *origin = &heap->origins.all[block->origin];

	if (origin->is_mixed)
		return turn(heap, block, role);
	if (origin->role != HEAP_PLAIN)
		return origin->role == role;
	origin->votes += !block->has_voted;
	block->has_voted = true;
	if (origin->votes < ENOUGH_VOTES || origin->votes < origin->blocks / 2)
		return false;
	change_role(heap, origin, role);
	return true;
}

/* The block of pages that an address lies in, by the alignment that blocks have. */
static struct heap_object *find_block(struct heap *heap, uint64_t ptr, uint64_t *head)
{
	for (int order = 0; order <= MAX_SLAB_ORDER; order++) {
		struct heap_object *block;

		*head = ptr & ~((UINT64_C(1) << (FRAME_SHIFT + order)) - 1);
		block = lives_find(&heap->blocks, *head);
		if (block && ptr - *head < block->bytes)
			return block;
	}
	return NULL;
}

/* The frame of an address whose slab is not known as one yet; NULL if there is none. */
__attribute__((noinline)) static struct slab_frame *search_slab(struct heap *heap, uint64_t ptr,
								struct heap_cache *cache, int *ret)
{
	struct heap_object *block;
	uint64_t head;

	if (cache->misses >= ENOUGH_MISSES)
		return NULL;
	block = find_block(heap, ptr, &head);
	if (!block || !vote(heap, block, HEAP_SLAB)) {
		cache->misses++;
		return NULL;
	}
	*ret = slabs_add_block(heap, head, block);
	return *ret ? NULL : u64_map_find(&heap->slabs.frames, ptr >> FRAME_SHIFT);
}

static bool is_block(struct heap *heap, uint64_t ptr, const struct heap_object *object)
{
	struct heap_object *block;

	if (object->bytes < HEAP_PAGE_SIZE || object->cache)
		return false;
	block = lives_find(&heap->blocks, ptr);
	if (!block || block->bytes > object->bytes)
		return false;
	if (origins_role(&heap->origins, block) == HEAP_SLAB)
		return false;
	vote(heap, block, HEAP_LARGE);
	return true;
}

/* A frame that is not at hand. Returns as slabs_search_place(). */
static int find_frame(struct heap *heap, uint64_t ptr, struct heap_cache *cache, uint16_t id)
{
	const uint64_t key = ptr >> FRAME_SHIFT;
	struct slab_frame *frame = u64_map_find(&heap->slabs.frames, key);
	int ret = 0;

	if (!frame)
		frame = search_slab(heap, ptr, cache, &ret);
	if (!frame)
		return ret ? ret : HEAP_OUTSIDE;
	if (!frame->has_cache)
		give_to_cache(heap, frame->block, cache, id);
	if (frame->has_cache)
		*slabs_recent(&heap->slabs, key) = key + 1;
	return HEAP_IN_SLAB;
}

int slabs_search_place(struct heap *heap, uint64_t ptr, const struct heap_object *object)
{
	struct heap_cache *cache;
	int place;

	if (is_block(heap, ptr, object))
		return HEAP_IS_BLOCK;
	cache = cache_of(&heap->slabs, object->cache);
	if (!cache)
		return -ENOMEM;
	place = find_frame(heap, ptr, cache, object->cache);
	if (place == HEAP_IN_SLAB) {
		cache->misses = 0;
		heap_sum_add(&cache->objects, 1, object->bytes);
	}
	return place;
}
