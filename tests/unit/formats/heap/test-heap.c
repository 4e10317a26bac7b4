/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/heap/heap.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define BASE UINT64_C(0xffff888000000000)
enum {
	PAGE = HEAP_PAGE_SIZE,
	SITE = 0x1000,
	SLAB_SITE = 0x2010,
	LARGE_SITE = 0x3010,
	MIXED_SITE = 0x6010,
	MOVER_SITE = 0x7010,
	TARGET_SITE = 0x8010
};

/* Changes by kind. */
struct seen {
	struct heap *heap;
	uint64_t n[HEAP_INVALID + 1];
	uint64_t frees; /* records */
};

static int see(void *arg, const struct heap_change *change)
{
	struct seen *seen = arg;

	seen->n[change->kind]++;
	seen->frees += change->kind == HEAP_FREE && change->is_first;
	return 0;
}

static const struct sidecar_symbol symbols[] = {
	{.start = 0x2000, .size = 0x100, .name = (char[]){"allocate_slab.isra.0"}},
	{.start = 0x3000, .size = 0x100, .name = (char[]){"__kmalloc_large_node_noprof"}},
	{.start = 0x4000, .size = 0x100, .name = (char[]){"kvmalloc_node"}},
	{.start = 0x5000, .size = 0x100, .name = (char[]){"kvmalloc_node_of_mine"}},
	{.start = 0x6000, .size = 0x100, .name = (char[]){"alloc_pages_mpol"}},
	{.start = 0x7000, .size = 0x100, .name = (char[]){"migrate_pages_batch"}},
	{.start = 0x8000, .size = 0x100, .name = (char[]){"alloc_migration_target"}},
};
static const struct sidecar named = {.symbols = (struct sidecar_symbol *)(uintptr_t)symbols,
				     .nr_symbols = sizeof(symbols) / sizeof(symbols[0])};

static void begin(struct seen *seen, const struct sidecar *sidecar)
{
	*seen = (struct seen){0};
	seen->heap = heap_create(sidecar, see, seen);
	if (!seen->heap)
		abort();
}

static void apply(struct seen *seen, struct kmem_record record)
{
	if (heap_apply(seen->heap, &record, 0, true))
		abort();
}

static void alloc_pages(struct seen *seen, uint64_t site, uint64_t ptr, unsigned int n)
{
	apply(seen,
	      make_alloc(KMEM_TYPE_PAGES, ptr, site, (uint64_t)n * PAGE, (uint64_t)n * PAGE, 1));
}

static void free_pages_at(struct seen *seen, uint64_t site, uint64_t ptr, unsigned int n)
{
	struct kmem_record record = make_free(KMEM_TYPE_PAGES, ptr, site, 2);

	record.bytes_req = record.bytes_alloc = (uint64_t)n * PAGE;
	apply(seen, record);
}

static void free_pages(struct seen *seen, uint64_t ptr, unsigned int n)
{
	free_pages_at(seen, SITE, ptr, n);
}

/* Compaction takes free pages without an event, memory hotplug allocates them. */
static void test_moved(void)
{
	struct seen seen;

	begin(&seen, &named);
	alloc_pages(&seen, SITE, BASE, 4);
	alloc_pages(&seen, SITE, BASE + 4 * PAGE, 1);
	free_pages(&seen, BASE + 4 * PAGE, 1);
	is_u64(heap_moved_bytes(seen.heap), 0, "pages that are freed are not moved");
	free_pages_at(&seen, MOVER_SITE, BASE, 4);
	is_u64(heap_moved_bytes(seen.heap), 4 * PAGE, "those that are copied and freed are");
	is_u64(heap_live_bytes(seen.heap), 0, "nothing says that they are live");
	free_pages_at(&seen, MOVER_SITE, BASE, 4);
	is_u64(heap_moved_bytes(seen.heap), 4 * PAGE, "what nothing has allocated is not counted");
	alloc_pages(&seen, TARGET_SITE, BASE + 8 * PAGE, 1);
	is_u64(heap_moved_bytes(seen.heap), 3 * PAGE, "nor is what was allocated to move to");
	heap_destroy(seen.heap);
}

static void alloc_object(struct seen *seen, uint16_t cache, uint64_t ptr)
{
	struct kmem_record record = make_alloc(KMEM_TYPE_CACHE, ptr, SITE, 60, 64, 1);

	record.cache = cache;
	apply(seen, record);
}

static uint64_t pages(const struct seen *seen, enum heap_role role)
{
	return heap_totals(seen->heap)->pages[role].bytes;
}

static uint64_t objects(const struct seen *seen, enum heap_place place)
{
	return heap_totals(seen->heap)->objects[place].bytes;
}

static void test_lives(void)
{
	struct seen seen;
	struct kmem_record odd = make_alloc(9, BASE, SITE, 8, 8, 1);

	begin(&seen, NULL);
	apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE, SITE, 60, 64, 1));
	is_u64(heap_live_bytes(seen.heap), 64, "an allocated object is live");
	apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE, SITE, 30, 32, 2));
	is_u64(heap_live_bytes(seen.heap), 32, "an address is live once");
	is_u64(seen.n[HEAP_MISSED_FREE], 1, "an allocation at a live address is a missed free");
	apply(&seen, make_free(KMEM_TYPE_CACHE, BASE, SITE, 3));
	is_u64(heap_live_bytes(seen.heap), 0, "a freed object is not live, whatever freed it");
	apply(&seen, make_free(KMEM_TYPE_KMALLOC, BASE, SITE, 4));
	is_u64(seen.n[HEAP_UNKNOWN_FREE], 1, "a second free is one of an unknown object");
	apply(&seen, odd);
	odd.type_id = 0;
	odd.event_id = 0;
	apply(&seen, odd);
	is_u64(seen.n[HEAP_INVALID], 2, "records with unknown ids are invalid");
	heap_destroy(seen.heap);
}

/* 8 pages of a slab with 3 objects, a large kmalloc() of 4 pages, 2 other pages. */
static void test_counted_once(void)
{
	struct seen seen;

	begin(&seen, &named);
	alloc_pages(&seen, SLAB_SITE, BASE, 8);
	alloc_object(&seen, 7, BASE);
	alloc_object(&seen, 7, BASE + PAGE - 64);
	alloc_object(&seen, 7, BASE + 8 * PAGE - 64);
	alloc_pages(&seen, LARGE_SITE, BASE + 16 * PAGE, 4);
	apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE + 16 * PAGE, SITE, 15000, 4 * PAGE, 1));
	alloc_pages(&seen, SITE, BASE + 32 * PAGE, 2);
	alloc_object(&seen, 7, BASE + 64 * PAGE);
	is_u64(pages(&seen, HEAP_SLAB), 8 * PAGE, "pages of the slab allocator are slabs");
	is_u64(pages(&seen, HEAP_LARGE), 4 * PAGE, "pages of a large kmalloc() are known as such");
	is_u64(pages(&seen, HEAP_PLAIN), 2 * PAGE, "other pages are neither");
	is_u64(objects(&seen, HEAP_IN_SLAB), 3 * 64, "objects lie in slabs");
	is_u64(objects(&seen, HEAP_IS_BLOCK), 4 * PAGE, "a large object is its block of pages");
	is_u64(objects(&seen, HEAP_OUTSIDE), 64,
	       "an object in pages that are not known is outside");
	is_u64(heap_live_bytes(seen.heap), 14 * PAGE + 64, "each byte is counted once");
	ok(heap_cache(seen.heap, 7)->slabs.bytes == 8 * PAGE &&
		   heap_cache(seen.heap, 7)->objects.bytes == 3 * 64,
	   "a cache has its slabs and the objects in them");
	apply(&seen, make_free(KMEM_TYPE_CACHE, BASE, SITE, 2));
	free_pages(&seen, BASE, 8);
	ok(!pages(&seen, HEAP_SLAB) && !heap_cache(seen.heap, 7)->slabs.bytes,
	   "a freed slab is gone from its cache");
	heap_destroy(seen.heap);
}

/* Where all pages come from one call site, what lies in a block says what it is used for. */
static void test_mixed(void)
{
	enum { BLOCKS = 20 };
	struct seen seen;

	begin(&seen, &named);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		alloc_pages(&seen, MIXED_SITE, BASE + i * 8 * PAGE, 8);
		alloc_object(&seen, 3, BASE + i * 8 * PAGE + 5 * PAGE);
		alloc_object(&seen, 3, BASE + i * 8 * PAGE + 6 * PAGE);
		alloc_pages(&seen, MIXED_SITE, BASE + (256 + 4 * i) * PAGE, 4);
		apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE + (256 + 4 * i) * PAGE, SITE, 15000,
					4 * PAGE, 1));
	}
	alloc_pages(&seen, MIXED_SITE, BASE + 1024 * PAGE, 1);
	is_u64(pages(&seen, HEAP_SLAB), BLOCKS * 8 * PAGE, "those with objects are slabs");
	is_u64(pages(&seen, HEAP_LARGE), BLOCKS * 4 * PAGE, "those that are objects are large");
	is_u64(pages(&seen, HEAP_PLAIN), PAGE, "and the rest are neither");
	is_u64(objects(&seen, HEAP_OUTSIDE), 0, "no object is outside");
	is_u64(heap_cache(seen.heap, 3)->slabs.objects, BLOCKS, "the cache has its slabs");
	free_pages(&seen, BASE + 3 * PAGE, 1);
	is_u64(pages(&seen, HEAP_SLAB), (BLOCKS * 8 - 1) * PAGE, "a piece of one is one");
	for (unsigned int i = 0; i < BLOCKS; i++) {
		free_pages(&seen, BASE + i * 8 * PAGE, 8);
		free_pages(&seen, BASE + (256 + 4 * i) * PAGE, 4);
	}
	free_pages(&seen, BASE + 1024 * PAGE, 1);
	is_u64(pages(&seen, HEAP_SLAB) + pages(&seen, HEAP_LARGE) + pages(&seen, HEAP_PLAIN), 0,
	       "nothing is left of what is freed");
	heap_destroy(seen.heap);
}

/* Without names, the objects tell. */
static void test_learning(void)
{
	struct seen seen;
	enum { SLABS = 20 };

	begin(&seen, NULL);
	for (unsigned int i = 0; i < SLABS; i++) {
		alloc_pages(&seen, SITE + 1, BASE + i * 2 * PAGE, 2);
		alloc_pages(&seen, SITE + 2, BASE + (64 + i) * PAGE, 1);
		alloc_object(&seen, 3, BASE + i * 2 * PAGE + PAGE + 128);
	}
	is_u64(pages(&seen, HEAP_SLAB), SLABS * 2 * PAGE,
	       "blocks with objects in them are slabs, without names, too");
	is_u64(pages(&seen, HEAP_PLAIN), SLABS * PAGE, "blocks without objects are not");
	heap_destroy(seen.heap);
}

static void test_pieces(void)
{
	struct seen seen;

	begin(&seen, NULL);
	alloc_pages(&seen, SITE, BASE, 8);
	free_pages(&seen, BASE + 5 * PAGE, 1);
	free_pages(&seen, BASE + 6 * PAGE, 2);
	is_u64(pages(&seen, HEAP_PLAIN), 5 * PAGE,
	       "of a block, the pieces that are freed are gone");
	is_u64(heap_totals(seen.heap)->pages[HEAP_PLAIN].objects, 5,
	       "what is left are blocks of a page");
	ok(seen.n[HEAP_SPLIT] == 1 && seen.n[HEAP_FREE] == 3 && seen.frees == 2,
	   "two frees ended three pieces");
	alloc_pages(&seen, SITE, BASE + 6 * PAGE, 2);
	free_pages(&seen, BASE, 1);
	is_u64(pages(&seen, HEAP_PLAIN), 6 * PAGE, "a freed piece can be part of another block");
	is_u64(seen.n[HEAP_UNKNOWN_FREE], 0, "no free is of an unknown block");
	apply(&seen, make_free(KMEM_TYPE_PAGES, BASE + 6 * PAGE, SITE, 3));
	is_u64(pages(&seen, HEAP_PLAIN), 4 * PAGE, "a free that has no size frees the whole block");
	free_pages(&seen, BASE + 64 * PAGE, 1);
	is_u64(seen.n[HEAP_UNKNOWN_FREE], 1, "a free outside of all blocks is one of an unknown");
	heap_destroy(seen.heap);
}

static void test_bound(void)
{
	struct seen seen;

	begin(&seen, NULL);
	for (unsigned int i = 0; i < 10; i++)
		apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE + i * 64, SITE, 64, 64, 1));
	alloc_pages(&seen, SITE, BASE + PAGE, 1);
	is_u64(heap_most_bytes(seen.heap, 0), 0, "no lost frees, no bytes");
	is_u64(heap_most_bytes(seen.heap, 1), PAGE, "one object has as many bytes as the largest");
	ok(heap_most_bytes(seen.heap, 3) >= PAGE + 2 * 64 &&
		   heap_most_bytes(seen.heap, 3) < PAGE + 4 * 64,
	   "three objects have at most the bytes of the three largest, to a power of two");
	is_u64(heap_most_bytes(seen.heap, 1000), PAGE + 640, "all objects have all bytes");
	heap_destroy(seen.heap);
}

static void test_wrappers(void)
{
	struct seen seen;

	begin(&seen, &named);
	apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE, 0x4010, 60, 64, 1));
	apply(&seen, make_alloc(KMEM_TYPE_KMALLOC, BASE + 64, 0x5010, 60, 64, 1));
	ok(heap_origin(seen.heap, 0)->is_wrapper, "kvmalloc() allocates for its callers");
	ok(!heap_origin(seen.heap, 1)->is_wrapper, "a function whose name begins so does not");
	heap_destroy(seen.heap);
}

/* Extreme records do no harm: sums end at 0 when all is freed. */
static void test_hostile(void)
{
	static const uint64_t sizes[] = {0, 1, PAGE, PAGE + 1, UINT64_C(1) << 40, UINT64_MAX};
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	static const uint64_t addresses[] = {0, 1, PAGE - 1, BASE, UINT64_MAX, UINT64_MAX - PAGE};
	struct seen seen;

	begin(&seen, NULL);
	for (unsigned int i = 0; i < N * N; i++) {
		struct kmem_record record = make_alloc(KMEM_TYPE_PAGES, addresses[i % N], SITE,
						       sizes[i / N], sizes[i / N], 1);

		apply(&seen, record);
		record.event_id = KMEM_EVENT_FREE;
		record.ptr += PAGE;
		apply(&seen, record);
		record.bytes_req = record.bytes_alloc = sizes[i % N];
		record.ptr -= PAGE;
		apply(&seen, record);
		apply(&seen, make_free(KMEM_TYPE_PAGES, addresses[i % N], SITE, 2));
	}
	ok(seen.n[HEAP_ALLOC] == N * N, "records with extreme sizes and addresses are taken");
	is_u64(heap_totals(seen.heap)->pages[HEAP_PLAIN].objects, 0, "all of them can be freed");
	heap_destroy(seen.heap);
}

int main(void)
{
	test_moved();
	test_lives();
	test_counted_once();
	test_mixed();
	test_learning();
	test_pieces();
	test_bound();
	test_wrappers();
	test_hostile();
	return tap_done();
}
