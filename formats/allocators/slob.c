/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of SLOB (mm/slob.c, until Linux 6.3): objects of all caches share pages. There are lists
 * of pages for small, medium and large objects, each a pool here. An object gets the first gap that
 * is large enough, from the page on that served the last one. NUMA nodes make no difference.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/allocator.h"

enum {
	UNIT = 2, /* bytes */
	UNITS = MODEL_PAGE_SIZE / UNIT,
	WORDS = UNITS / 64,
	TOKEN_SHIFT = 11, /* a token is the page's index, and the unit in it */
};
_Static_assert(1 << TOKEN_SHIFT == UNITS, "a token holds a unit");

struct slob_page {
	struct slob_page *prev, *next; /* a ring; NULL: the page is full */
	uint32_t index;                /* in the pool's pages */
	uint32_t free_units;
	uint32_t gap_most; /* no gap is larger */
	uint64_t used[WORDS];
};

struct slob_pool {
	struct slob_page *first; /* of the ring; NULL: it is empty */
	struct slob_page **pages;
	uint32_t *unused; /* indices without a page */
	uint32_t nr_pages, nr_unused, room;
};

/* --- gaps ------------------------------------------------------------------------------------ */

/* The first unit from `at` on that is used, or not; UNITS: there is none. */
static uint32_t next_unit(const struct slob_page *page, uint32_t at, bool is_used)
{
	for (uint32_t word = at / 64; word < WORDS; word++) {
		uint64_t bits = is_used ? page->used[word] : ~page->used[word];

		if (word == at / 64)
			bits &= ~UINT64_C(0) << at % 64;
		if (bits)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return UNITS;
}

static void set_units(struct slob_page *page, uint32_t from, uint32_t n, bool is_used)
{
	for (uint32_t i = from; i < from + n; i++) {
		if (is_used)
			page->used[i / 64] |= UINT64_C(1) << i % 64;
		else
			page->used[i / 64] &= ~(UINT64_C(1) << i % 64);
	}
}

/* Where n units fit, so that what follows their head is aligned; UNITS: nowhere. */
static uint32_t find_gap(struct slob_page *page, uint32_t n, const struct object_shape *shape)
{
	const uint32_t align = shape->align / UNIT, head = shape->head / UNIT;
	uint32_t largest = 0, end;

	if (page->free_units < n || page->gap_most < n)
		return UNITS;
	for (uint32_t at = next_unit(page, 0, false); at < UNITS;
	     at = next_unit(page, end, false)) {
		const uint32_t start = (at + head + align - 1) / align * align - head;

		end = next_unit(page, at, true);
		if (start + n <= end)
			return start;
		if (end - at > largest)
			largest = end - at;
	}
	page->gap_most = largest;
	return UNITS;
}

/* --- pages ----------------------------------------------------------------------------------- */

/* At the ring's begin. */
static void ring_add(struct slob_pool *pool, struct slob_page *page)
{
	page->next = pool->first ? pool->first : page;
	page->prev = pool->first ? pool->first->prev : page;
	page->next->prev = page;
	page->prev->next = page;
	pool->first = page;
}

static void ring_remove(struct slob_pool *pool, struct slob_page *page)
{
	if (pool->first == page)
		pool->first = page->next == page ? NULL : page->next;
	page->prev->next = page->next;
	page->next->prev = page->prev;
	page->prev = page->next = NULL;
}

static bool make_room(struct slob_pool *pool)
{
	const uint32_t room = pool->room ? 2 * pool->room : 64;
	struct slob_page **pages;
	uint32_t *unused;

	if (pool->nr_unused || pool->nr_pages < pool->room)
		return true;
	pages = realloc(pool->pages, room * sizeof(struct slob_page *));
	if (!pages)
		return false;
	pool->pages = pages;
	unused = realloc(pool->unused, room * sizeof(*unused));
	if (!unused)
		return false;
	pool->unused = unused;
	pool->room = room;
	return true;
}

/* NULL: no memory. */
static struct slob_page *page_create(struct model_cache *cache)
{
	struct slob_pool *pool = cache->own;
	struct slob_page *page = make_room(pool) ? calloc(1, sizeof(*page)) : NULL;

	if (!page)
		return NULL;
	page->index = pool->nr_unused ? pool->unused[--pool->nr_unused] : pool->nr_pages++;
	pool->pages[page->index] = page;
	page->free_units = page->gap_most = UNITS;
	ring_add(pool, page);
	model_take_pages(cache, 1);
	return page;
}

static void page_destroy(struct model_cache *cache, struct slob_page *page)
{
	struct slob_pool *pool = cache->own;

	pool->pages[page->index] = NULL;
	pool->unused[pool->nr_unused++] = page->index;
	model_give_pages(cache, 1);
	free(page);
}

/* --- operations ------------------------------------------------------------------------------ */

static int cache_init(struct model_cache *cache)
{
	cache->own = calloc(1, sizeof(struct slob_pool));
	return cache->own ? 0 : -ENOMEM;
}

static void cache_deinit(struct model_cache *cache)
{
	struct slob_pool *pool = cache->own;

	if (!pool)
		return;
	for (uint32_t i = 0; i < pool->nr_pages; i++)
		free(pool->pages[i]);
	free(pool->pages);
	free(pool->unused);
	free(pool);
}

static uint32_t units_of(const struct object_shape *shape)
{
	return (uint32_t)(shape->bytes + UNIT - 1) / UNIT;
}

/* The page from the ring's begin on that has room, and where. NULL: none has. */
static struct slob_page *find_page(struct slob_pool *pool, const struct object_shape *shape,
				   uint32_t *at)
{
	struct slob_page *page = pool->first;

	if (!page)
		return NULL;
	do {
		*at = find_gap(page, units_of(shape), shape);
		if (*at < UNITS)
			return page;
		page = page->next;
	} while (page != pool->first);
	return NULL;
}

static int alloc(struct model_cache *cache, const struct placement *where,
		 const struct object_shape *shape, uintptr_t *token)
{
	struct slob_pool *pool = cache->own;
	const uint32_t units = units_of(shape);
	uint32_t at;
	struct slob_page *page = find_page(pool, shape, &at);

	(void)where;
	if (!page) {
		page = page_create(cache);
		if (!page)
			return -ENOMEM;
		at = find_gap(page, units, shape);
	}
	set_units(page, at, units, true);
	page->free_units -= units;
	if (page->free_units)
		pool->first = page;
	else
		ring_remove(pool, page);
	*token = (uintptr_t)page->index << TOKEN_SHIFT | at;
	return 0;
}

static void free_object(struct model_cache *cache, unsigned int cpu,
			const struct object_shape *shape, uintptr_t token)
{
	struct slob_pool *pool = cache->own;
	struct slob_page *page = pool->pages[token >> TOKEN_SHIFT];
	const uint32_t units = units_of(shape);
	const bool was_full = !page->free_units;

	(void)cpu;
	page->free_units += units;
	if (page->free_units == UNITS) {
		if (!was_full)
			ring_remove(pool, page);
		page_destroy(cache, page);
		return;
	}
	set_units(page, token & (UNITS - 1), units, false);
	page->gap_most = page->free_units;
	if (was_full)
		ring_add(pool, page);
}

/* --- pools ----------------------------------------------------------------------------------- */

/* kmalloc() puts the size in front of an object, and aligns powers of 2 to their size. */
static void shape_object(const struct object_request *request, struct object_shape *shape)
{
	enum { ALIGN = 8 };
	const uint64_t bytes = request->bytes;

	*shape = (struct object_shape){.bytes = bytes, .align = ALIGN};
	if (request->params.align != MODEL_AUTO)
		shape->align = (uint32_t)request->params.align;
	if (request->is_kmalloc) {
		shape->head = ALIGN;
		shape->bytes += ALIGN;
		if (bytes > shape->align && bytes < MODEL_PAGE_SIZE && !(bytes & (bytes - 1)))
			shape->align = (uint32_t)bytes;
	}
	if (!bytes)
		shape->bytes += UNIT;
	if (shape->align < UNIT)
		shape->align = UNIT;
	shape->bytes = (shape->bytes + UNIT - 1) / UNIT * UNIT;
}

static const char *pool_of(const struct object_request *request, struct object_shape *shape,
			   uint64_t *most)
{
	static const struct {
		uint64_t bytes;
		const char *name;
	} pools[] = {{256, "slob-small"}, {1024, "slob-medium"}, {MODEL_PAGE_SIZE, "slob-large"}};
	size_t i = 0;

	if (request->bytes >= MODEL_PAGE_SIZE)
		return NULL;
	shape_object(request, shape);
	if (shape->bytes >= MODEL_PAGE_SIZE ||
	    (shape->head && shape->align + shape->bytes - shape->head > MODEL_PAGE_SIZE))
		return NULL;
	while (shape->bytes >= pools[i].bytes)
		i++;
	*most = pools[i].bytes;
	return pools[i].name;
}

const struct allocator_ops slob_allocator = {
	.name = "SLOB",
	.pool = pool_of,
	.cache_init = cache_init,
	.cache_deinit = cache_deinit,
	.alloc = alloc,
	.free = free_object,
};
