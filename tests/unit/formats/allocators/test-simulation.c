/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Models at work: which pages they hold after given allocations and frees. */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/simulate.h"
#include "tests/lib/tap.h"

/* Orders that /proc/slabinfo of Debian's 6.1 shows with 1 CPU. */
static void test_orders(void)
{
	static const struct {
		uint64_t size;
		unsigned int order;
	} rows[] = {{8, 0},    {64, 0},   {192, 0},  {256, 0},  {320, 0},  {384, 0},  {576, 1},
		    {640, 1},  {768, 1},  {960, 1},  {1024, 1}, {1192, 2}, {1216, 2}, {1344, 2},
		    {1984, 2}, {2048, 2}, {2176, 3}, {2496, 3}, {4096, 3}, {8192, 3}, {40000, 4}};
	struct simulation *simulation = make("", 1);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct model_cache *cache;

		alloc_from(simulation, i, "c", rows[i].size, 0);
		cache = simulation_cache(simulation, i);
		ok(cache->order == rows[i].order, "slabs of objects of %u bytes have order %u",
		   (unsigned int)rows[i].size, rows[i].order);
	}
	simulation_destroy(simulation);
}

static void test_node_lists(void)
{
	struct simulation *s =
		make("order_max = 0\nmin_objects = 1\ncpu_partial = 0\nmin_partial = 2\n", 1);

	fill(s, 0, 40, 0);
	ok(simulation_pages(s) == 10, "40 objects, 4 to a page, take 10 pages");
	drop(s, 0, 10, 4, 0);
	ok(simulation_pages(s) == 10, "a slab stays while an object of it is live");
	fill(s, 100, 9, 0);
	ok(simulation_pages(s) == 10, "free objects of partial slabs are used before new slabs");
	drop(s, 100, 9, 1, 0);
	for (uint64_t i = 0; i < 40; i++) {
		if (i % 4)
			simulation_free(s, i, 0);
	}
	ok(simulation_pages(s) == 2,
	   "a node keeps fewer than min_partial empty slabs, and the CPU its own");
	ok(find(s, "c")->peak == 10 && !find(s, "c")->objects, "the peak is kept");
	simulation_destroy(s);
}

static void test_cpu_lists(void)
{
	/* 8 objects are 4 slabs that are half full. */
	struct simulation *s =
		make("order_max = 0\nmin_objects = 1\ncpu_partial = 8\nmin_partial = 0\n", 2);

	fill(s, 0, 20, 0);
	drop(s, 0, 16, 1, 1);
	ok(simulation_pages(s) == 5, "a CPU's list keeps the slabs that it emptied");
	fill(s, 100, 4, 1);
	ok(simulation_pages(s) == 5, "and takes objects from them first");
	fill(s, 200, 8, 0);
	ok(simulation_pages(s) == 7, "which another CPU cannot");
	drop(s, 16, 4, 1, 1);
	drop(s, 200, 4, 1, 1);
	ok(simulation_pages(s) == 3,
	   "a list that is full goes to the node, which keeps no empty slab");
	simulation_destroy(s);
}

/* A slab that the CPU takes from its list takes along what it was counted with (page->pobjects). */
static void test_counted_objects(void)
{
	struct simulation *s = make("base = slub-5.10\norder_max = 0\nmin_objects = 1\ncpu_partial "
				    "= 2\nmin_partial = 0\n",
				    1);

	fill(s, 0, 16, 0);
	drop(s, 0, 4, 1, 0);
	drop(s, 4, 1, 1, 0);
	fill(s, 100, 1, 0);
	drop(s, 8, 1, 1, 0);
	drop(s, 12, 1, 1, 0);
	ok(simulation_pages(s) == 4, "two counted objects do not fill a list of two");
	simulation_destroy(s);
}

static void test_sheaves(void)
{
	struct simulation *s =
		make("order_max = 0\nmin_objects = 1\nsheaf = 4\nmin_partial = 0\n", 1);

	fill(s, 0, 1, 0);
	ok(simulation_pages(s) == 1, "a sheaf is filled from a slab");
	fill(s, 1, 63, 0);
	ok(simulation_pages(s) == 16, "64 objects take 16 pages");
	drop(s, 0, 64, 1, 0);
	ok(simulation_pages(s) == 12, "2 sheaves of the CPU and 10 of the node keep 48 objects");
	fill(s, 100, 48, 0);
	ok(simulation_pages(s) == 12, "which are taken from there again");
	simulation_destroy(s);
}

/* Objects of 1 KiB, 4 to a slab of one page. */
static void alloc_kib(struct simulation *simulation, uint64_t ptr, bool in_array,
		      unsigned int prefilled)
{
	const struct allocation allocation = {.ptr = ptr,
					      .cache = "c",
					      .object_size = 1024,
					      .taken = 1024,
					      .requested = 1024,
					      .node = -1,
					      .in_array = in_array,
					      .prefilled = prefilled};

	if (simulation_alloc(simulation, &allocation))
		abort();
}

static void drop_array(struct simulation *simulation, uint64_t from, size_t n, enum array_free how)
{
	uint64_t ptrs[8];

	for (size_t i = 0; i < n; i++)
		ptrs[i] = from + i;
	simulation_free_array(simulation, ptrs, n, 0, how);
}

/* The next object goes to the slab whose object was freed first. */
static void test_array_order(void)
{
	static const char text[] =
		"order_max = 0\nmin_objects = 1\ncpu_partial = 0\nmin_partial = 0\n";
	static const uint64_t first_of_each[] = {0, 4}, same[] = {0, 4, 1};
	struct simulation *s = make(text, 1);

	fill(s, 0, 12, 0);
	simulation_free_array(s, first_of_each, 2, 0, ARRAY_OF_ANY);
	fill(s, 100, 1, 0);
	drop(s, 1, 3, 1, 0);
	ok(simulation_pages(s) == 2, "an array is freed from its end on");
	simulation_destroy(s);
	s = make(text, 1);
	fill(s, 0, 12, 0);
	simulation_free_array(s, same, 3, 0, ARRAY_OF_ANY);
	fill(s, 100, 1, 0);
	drop(s, 5, 3, 1, 0);
	ok(simulation_pages(s) == 2, "with the last object go others of its slab");
	simulation_destroy(s);
	s = make("base = slab-5.10\n", 1);
	fill(s, 0, 4, 0);
	drop_array(s, 0, 4, ARRAY_OF_ANY);
	ok(!find(s, "c")->objects, "SLAB frees the objects of an array, too");
	simulation_destroy(s);
}

static void test_sheaf_arrays(void)
{
	static const char text[] = "order_max = 0\nmin_objects = 1\nsheaf = 4\nmin_partial = 0\n";
	struct simulation *s = make(text, 1);

	fill(s, 0, 64, 0);
	for (uint64_t i = 0; i < 40; i += 4)
		drop_array(s, i, 4, ARRAY_OF_RCU);
	ok(simulation_pages(s) == 16, "a node keeps ten sheaves of kfree_rcu()");
	drop_array(s, 40, 4, ARRAY_OF_RCU);
	ok(simulation_pages(s) == 15, "and no more, though the CPU's own ones are empty");
	drop_array(s, 44, 2, ARRAY_OF_RCU);
	drop_array(s, 46, 2, ARRAY_OF_RCU);
	ok(simulation_pages(s) == 14, "several arrays fill a sheaf");
	drop_array(s, 48, 4, ARRAY_OF_ANY);
	ok(simulation_pages(s) == 13, "kfree_bulk() goes past sheaves");
	drop_array(s, 52, 4, ARRAY_OF_CACHE);
	ok(simulation_pages(s) == 13, "kmem_cache_free_bulk() does not");
	simulation_shrink(s, "d");
	ok(simulation_pages(s) == 13, "another cache is shrunk");
	simulation_shrink(s, "c");
	ok(simulation_pages(s) == 2, "a cache that is shrunk has live objects only");
	simulation_destroy(s);
}

static void test_sheaf_filling(void)
{
	static const char text[] =
		"order_max = 0\nmin_objects = 1\nsheaf = 8\n[c]\nprefilled = yes\n";
	struct simulation *s = make(text, 1);

	alloc_kib(s, 0, true, 0);
	ok(simulation_pages(s) == 1, "an array does not have a sheaf filled");
	alloc_kib(s, 1, false, 0);
	ok(simulation_pages(s) == 3, "a single object does, from partial slabs first");
	alloc_kib(s, 2, false, 3);
	ok(simulation_pages(s) == 5, "as does who fills one beforehand, whatever else there is");
	for (uint64_t i = 3; i < 8; i++)
		alloc_kib(s, i, false, 1);
	ok(simulation_pages(s) == 5, "and gets the next objects out of it");
	alloc_kib(s, 8, false, 2);
	ok(simulation_pages(s) == 5, "as long as it has enough for the next one,");
	alloc_kib(s, 9, false, 2);
	ok(simulation_pages(s) == 6, "who has it filled before it is empty");
	simulation_destroy(s);
}

/* Sheaves of 4, as large as a slab. */
static void test_sheaf_array_room(void)
{
	static const char text[] = "order_max = 0\nmin_objects = 1\nsheaf = 4\nmin_partial = 0\n";
	struct simulation *s = make(text, 1);

	fill(s, 0, 16, 0);
	drop_array(s, 0, 8, ARRAY_OF_CACHE);
	ok(simulation_pages(s) == 4, "an array fills the sheaves that the CPU has");
	drop_array(s, 8, 4, ARRAY_OF_CACHE);
	ok(simulation_pages(s) == 3, "but has none made: the rest goes to slabs");
	drop(s, 12, 4, 1, 0);
	ok(simulation_pages(s) == 3, "as one is for a single object");
	simulation_destroy(s);
	s = make(text, 1);
	fill(s, 0, 16, 0);
	drop(s, 0, 16, 1, 0);
	fill(s, 0, 16, 0);
	drop_array(s, 0, 8, ARRAY_OF_CACHE);
	drop_array(s, 8, 8, ARRAY_OF_CACHE);
	ok(simulation_pages(s) == 4, "an array gets empty sheaves that the node has");
	simulation_destroy(s);
}

static void test_shrinking(void)
{
	struct simulation *s = make("order_max = 0\nmin_objects = 1\n", 1);

	fill(s, 0, 40, 0);
	drop(s, 0, 39, 1, 0);
	ok(simulation_pages(s) > 1, "empty slabs are kept");
	simulation_shrink(s, "c");
	ok(simulation_pages(s) == 1, "but by no cache that is shrunk, nor by CPUs");
	fill(s, 100, 3, 0);
	ok(simulation_pages(s) == 1, "whose slabs are used again");
	simulation_destroy(s);
}

static void test_nodes(void)
{
	struct simulation *s = make("nodes = 2\norder_max = 0\nmin_objects = 1\n", 2);

	fill(s, 0, 1, 0);
	fill(s, 1, 1, 1);
	ok(simulation_pages(s) == 2, "CPUs of two nodes have slabs of their own");
	simulation_free(s, 0, 1);
	fill(s, 2, 3, 1);
	ok(simulation_pages(s) == 2, "a slab serves its own node only");
	simulation_destroy(s);
}

static void test_places(void)
{
	struct simulation *s = make("kmalloc_sizes = 64 1024\n", 1);

	kmalloc_at(s, 1, "kmalloc-cg-32", 20, 0);
	ok(find(s, "kmalloc-cg-64") != NULL, "kmalloc() takes the next size of the same kind");
	kmalloc_at(s, 2, "kmalloc-128", 100, 0);
	ok(find(s, "kmalloc-1k") != NULL, "a cache's name is the kernel's");
	kmalloc_at(s, 3, "kmalloc-8k", 5000, 0);
	ok(find(s, "(large)") && find(s, "(large)")->pages == 2,
	   "beyond the last size it gets pages");
	simulation_free(s, 3, 0);
	ok(!find(s, "(large)")->pages, "which are given back");
	ok(find(s, "kmalloc-cg-64")->requested == 20 && find(s, "kmalloc-cg-64")->taken == 64,
	   "what rounding adds is counted");
	kmalloc_at(s, 2, "kmalloc-128", 60, 0);
	ok(!find(s, "kmalloc-1k")->objects && find(s, "kmalloc-64"),
	   "an object at the address of a live one takes its place");
	simulation_destroy(s);
}

static void test_variants(void)
{
	struct simulation *s = make("kmalloc_sizes = 64\nkmalloc_copies = 16\n", 1);

	for (uint64_t i = 0; i < 200; i++)
		kmalloc_at(s, i, "kmalloc-64", 64, i * 16);
	ok(simulation_nr_caches(s) == 16, "200 call sites use 16 copies");
	simulation_destroy(s);
	s = make("merge = yes\n", 1);
	alloc_from(s, 1, "a", 192, 0);
	alloc_from(s, 2, "b", 192, 0);
	ok(simulation_nr_caches(s) == 1, "caches of one size are merged");
	simulation_destroy(s);
	s = make("align = 64\nextra = 8\n", 1);
	alloc_from(s, 1, "a", 100, 0);
	ok(simulation_cache(s, 0)->slot == 136, "objects are aligned, and take so much more");
	simulation_destroy(s);
}

/* An object of kmalloc() whose call site uses a set of caches, or NULL. */
static void bucket_at(struct simulation *simulation, uint64_t ptr, const char *cache,
		      const char *buckets)
{
	const struct allocation allocation = {.ptr = ptr,
					      .cache = cache,
					      .taken = 64,
					      .requested = 50,
					      .buckets = buckets,
					      .node = -1,
					      .is_kmalloc = true};

	if (simulation_alloc(simulation, &allocation))
		abort();
}

static bool has_objects(const struct simulation *s, const char *cache, uint64_t n)
{
	return find(s, cache) && find(s, cache)->objects == n;
}

static void test_buckets(void)
{
	struct simulation *s = make("base = slub-6.12-buckets\n", 1);

	bucket_at(s, 1, "kmalloc-64", "memdup_user");
	bucket_at(s, 2, "kmalloc-cg-64", "msg_msg");
	bucket_at(s, 3, "kmalloc-64", NULL);
	bucket_at(s, 4, "memdup_user-64", NULL);
	bucket_at(s, 5, "memdup_user-rest", NULL);
	ok(has_objects(s, "memdup_user-64", 2) && has_objects(s, "msg_msg-64", 1),
	   "what users fill has caches of its own, also that of a guest with such caches");
	ok(has_objects(s, "kmalloc-64", 2) && simulation_nr_caches(s) == 3, "all else has not");
	ok(simulation_pages(s) == 3, "each set has slabs of its own");
	simulation_destroy(s);
	s = make("base = slub-6.12\n", 1);
	bucket_at(s, 1, "memdup_user-64", NULL);
	bucket_at(s, 2, "msg_msg-64", NULL);
	bucket_at(s, 3, "kmalloc-64", "msg_msg");
	bucket_at(s, 4, "kmalloc-rnd-05-64", NULL);
	bucket_at(s, 5, "kmalloc-cg-64", NULL);
	ok(has_objects(s, "kmalloc-64", 4) && has_objects(s, "kmalloc-cg-64", 1),
	   "a model without buckets and copies has none of the guest's");
	simulation_destroy(s);
	s = make("base = slub-6.12-random\nkmalloc_buckets = yes\n", 1);
	for (uint64_t i = 0; i < 200; i++)
		bucket_at(s, i, "kmalloc-64", "msg_msg");
	ok(simulation_nr_caches(s) == 1, "buckets have no copies");
	simulation_destroy(s);
}

static void test_slab_orders(void)
{
	static const struct {
		uint64_t size;
		unsigned int order;
		uint64_t objects;
	} rows[] = {{32, 0, 124}, {64, 0, 64},  {192, 0, 21}, {256, 0, 16}, {704, 1, 11},
		    {2048, 0, 2}, {6144, 1, 1}, {8192, 1, 1}, {20000, 3, 1}};
	struct simulation *s = make("base = slab-5.10\n", 1);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct model_cache *cache;

		alloc_from(s, i, "c", rows[i].size, 0);
		cache = simulation_cache(s, i);
		ok(cache->order == rows[i].order && cache->per_slab == rows[i].objects,
		   "SLAB: slabs of objects of %u bytes have order %u and %u objects",
		   (unsigned int)rows[i].size, rows[i].order, (unsigned int)rows[i].objects);
	}
	simulation_destroy(s);
}

static void test_slob(void)
{
	struct simulation *s = make("base = slob-5.10\n", 1);

	for (uint64_t i = 0; i < 39; i++)
		alloc_from(s, i, i % 2 ? "a" : "b", 100, 0);
	ok(simulation_pages(s) == 1 && find(s, "slob-small")->objects == 39,
	   "SLOB: objects of all caches share a page");
	simulation_destroy(s);
	s = make("base = slob-5.10\n", 1);
	for (uint64_t i = 0; i < 16; i++)
		alloc_from(s, i, "a", 250, 0);
	ok(simulation_pages(s) == 1, "16 objects of 250 bytes, each aligned to 8, fill a page");
	simulation_free(s, 5, 0);
	simulation_free(s, 9, 0);
	alloc_from(s, 20, "b", 120, 0);
	alloc_from(s, 21, "b", 120, 0);
	alloc_from(s, 22, "b", 240, 0);
	ok(simulation_pages(s) == 1, "smaller objects share a gap");
	alloc_from(s, 23, "b", 240, 0);
	ok(simulation_pages(s) == 2, "what fits no gap gets a new page");
	simulation_free(s, 23, 0);
	ok(simulation_pages(s) == 1, "an empty page is given back at once");
	drop(s, 0, 16, 1, 0);
	drop(s, 20, 3, 1, 0);
	ok(!simulation_pages(s), "and so is the last one");
	simulation_destroy(s);
}

static void test_slob_kmalloc(void)
{
	struct simulation *s = make("base = slob-5.10\n", 1);

	kmalloc_at(s, 1, "kmalloc-128", 100, 0);
	ok(find(s, "slob-small")->taken == 108, "SLOB: kmalloc() takes 8 bytes more");
	kmalloc_at(s, 2, "kmalloc-2k", 2048, 0);
	kmalloc_at(s, 3, "kmalloc-2k", 2048, 0);
	ok(find(s, "slob-large")->pages == 2, "powers of 2 are aligned: one of 2 KiB to a page");
	kmalloc_at(s, 4, "kmalloc-4k", 4090, 0);
	ok(find(s, "(large)")->pages == 1, "what has no room for its size gets pages");
	kmalloc_at(s, 5, "kmalloc-8", 0, 0);
	kmalloc_at(s, 6, "kmalloc-8", 0, 0);
	alloc_from(s, 7, "none", 0, 0);
	alloc_from(s, 8, "none", 0, 0);
	drop(s, 1, 8, 1, 0);
	ok(!simulation_pages(s), "objects without bytes do no harm");
	alloc_from(s, 9, "huge", UINT64_MAX - 1, 0);
	ok(find(s, "(large)")->objects == 1, "nor do huge ones");
	simulation_destroy(s);
	s = make("base = slob-5.10\nalign = 4096\n", 1);
	kmalloc_at(s, 1, "kmalloc-128", 100, 0);
	alloc_from(s, 2, "a", 100, 0);
	alloc_from(s, 3, "a", 100, 0);
	ok(find(s, "(large)")->pages == 1 && find(s, "slob-small")->pages == 2,
	   "an alignment that leaves no room in a page is obeyed");
	simulation_destroy(s);
}

int main(void)
{
	test_orders();
	test_node_lists();
	test_cpu_lists();
	test_counted_objects();
	test_sheaves();
	test_array_order();
	test_sheaf_arrays();
	test_sheaf_filling();
	test_sheaf_array_room();
	test_shrinking();
	test_nodes();
	test_places();
	test_variants();
	test_buckets();
	test_slab_orders();
	test_slob();
	test_slob_kmalloc();
	return tap_done();
}
