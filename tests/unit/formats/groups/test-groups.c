/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/groups/group-sums.h"
#include "formats/groups/groups.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE_A = 0x1000, SITE_B = 0x2000, FREER = 0x3000 };

/* Groups of a heap, fed by hand. */
struct sums {
	struct heap *heap;
	struct groups *groups;
	bool counted;
};

static int take(void *arg, const struct heap_change *change)
{
	struct sums *sums = arg;

	return change->object ? groups_add(sums->groups, change, sums->counted) : 0;
}

static void begin_with(struct sums *sums, const struct sidecar *sidecar, enum dimension first,
		       enum dimension second, size_t n)
{
	const struct grouping by = {{first, second}, n};

	sums->heap = heap_create(sidecar, take, sums);
	sums->groups = groups_create(&by, sums->heap, NULL);
	sums->counted = true;
	if (!sums->heap || !sums->groups)
		abort();
}

static void begin(struct sums *sums, enum dimension first, enum dimension second, size_t n)
{
	begin_with(sums, NULL, first, second, n);
}

static void end(struct sums *sums)
{
	groups_destroy(sums->groups);
	heap_destroy(sums->heap);
}

static void feed(struct sums *sums, unsigned int vcpu, struct kmem_record record)
{
	if (heap_apply(sums->heap, &record, vcpu, true))
		abort();
}

static void alloc_in_cache(struct sums *sums, uint16_t cache, uint64_t ptr, int64_t timestamp)
{
	struct kmem_record record = make_alloc(KMEM_TYPE_CACHE, ptr, SITE_B, 190, 192, timestamp);

	record.cache = cache;
	feed(sums, 1, record);
}

/*
 * Site A: kmallocs of 30/32 and 100/128 bytes on vCPU 0, the first freed on vCPU 1, and 2 pages,
 * freed. Site B: a cache's objects of 190/192, of which one stays. A free of something older.
 */
static void feed_sample(struct sums *a)
{
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 30, 32, 1000));
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, 100, 128, 1010));
	alloc_in_cache(a, 3, 0x2000, 1020);
	alloc_in_cache(a, 3, 0x3000, 1030);
	feed(a, 0, make_alloc(KMEM_TYPE_PAGES, 0x2000, SITE_A, 8192, 8192, 1040));
	feed(a, 1, make_free(KMEM_TYPE_KMALLOC, 0x100, FREER, 1050));
	feed(a, 1, make_free(KMEM_TYPE_CACHE, 0x2000, FREER, 1060));
	feed(a, 0, make_free(KMEM_TYPE_PAGES, 0x2000, FREER, 1070));
	feed(a, 0, make_free(KMEM_TYPE_KMALLOC, 0x9000, FREER, 1080));
}

/* All allocations as one group, beside groups by type. */
struct beside {
	struct sums by_type;
	struct group all;
};

static int take_beside(void *arg, const struct heap_change *change)
{
	struct beside *b = arg;

	if (change->object)
		group_add(&b->all, change, change->kind, true);
	return take(&b->by_type, change);
}

/* The first group in this order; copied. */
static struct group first(const struct sums *sums, enum measure measure)
{
	const struct group **sorted = groups_sort(sums->groups, measure, 1000000000);
	struct group group = *sorted[0];

	free(sorted);
	return group;
}

/* Of a trace by a recorder that took anything for a node. */
static void test_negative_node(void)
{
	struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 30, 32, 1000);
	struct sums a;
	struct group group;
	json_t *json;

	record.node = -7;
	begin(&a, BY_NODE, 0, 1);
	feed(&a, 0, record);
	group = first(&a, MEASURE_BYTES);
	is_str(groups_key_text(a.groups, &group, 0).s, "-7", "a negative node is shown as such");
	json = groups_key_json(a.groups, &group);
	ok(json_integer_value(json_object_get(json, "node")) == -7, "in JSON, too");
	json_decref(json);
	end(&a);
}

/* vCPU 0 is near the first 8 KiB, vCPU 1 near what is behind. */
static void test_nodes(void)
{
	const struct sidecar sidecar = {
		.info = {.nodes = {{.number = 0, .bytes = 0x2000, .vcpus = 1},
				   {.number = 1, .start = 0x2000, .bytes = 0x2000, .vcpus = 2}},
			 .nr_nodes = 2}};
	struct sums a;
	struct group group;

	begin_with(&a, &sidecar, BY_CALLSITE, 0, 1);
	feed_sample(&a);
	feed(&a, 1, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, 100, 128, 1090));
	group = first(&a, MEASURE_CROSS_NODE);
	ok(group.keys[0] == SITE_A && group.frees == 2 && group.cross_node == 2,
	   "frees on a vCPU of another node than the memory are counted, others are not");
	is_str(measure_text(MEASURE_CROSS_NODE, &group, 1).s, "2", "and shown");
	end(&a);
}

static void test_call_sites(void)
{
	struct sums a;
	struct group group;

	begin(&a, BY_CALLSITE, 0, 1);
	feed_sample(&a);
	is_u64(groups_count(a.groups), 2, "each call site is a group");
	group = first(&a, MEASURE_BYTES);
	is_u64(group.keys[0], SITE_A, "groups are sorted by allocated bytes");
	is_u64(group.hits, 3, "a group counts its allocations");
	is_u64(group.frees, 2, "a group counts the frees of its objects");
	is_u64(group.cross_cpu, 1, "a cross-CPU free is counted for the call site that allocated");
	is_u64(group.live_bytes, 128, "a group adds up its live bytes");
	is_u64(group.live_requested, 100, "a group adds up what was requested of its live bytes");
	is_u64(group.peak_bytes, 32 + 128 + 8192, "a group keeps its greatest live bytes");
	is_u64(group.lives_ns, 50 + 30, "a group adds up the lives of what was freed");
	is_str(measure_text(MEASURE_LIFETIME, &group, 1).s, "40 ns", "its lifetime is their mean");
	group = first(&a, MEASURE_LIVE);
	is_u64(group.keys[0], SITE_B, "groups are sorted by live bytes");
	is_u64(group.live_objects, 1, "a group counts its live objects");
	is_u64(group.cross_node, 0, "without nodes there is no cross-node free");
	ok(group_fragmentation(&group) > 1.04 && group_fragmentation(&group) < 1.05,
	   "fragmentation is the share of allocated bytes that was not requested: 4 of 384");
	is_u64(first(&a, MEASURE_HITS).keys[0], SITE_A, "groups are sorted by allocations");
	is_u64(first(&a, MEASURE_CROSS_CPU).keys[0], SITE_A,
	       "groups are sorted by cross-CPU frees");
	is_u64(first(&a, MEASURE_FRAGMENTATION).keys[0], SITE_B,
	       "groups are sorted by fragmentation");
	is_u64(first(&a, MEASURE_WASTED).keys[0], SITE_A, "groups are sorted by wasted bytes");
	is_str(measure_text(MEASURE_RATE, &group, 4000000000).s, "0.5",
	       "a rate is in allocations per second");
	end(&a);
}

/* The call sites of the sample return structures of these sizes. */
static void test_objects(void)
{
	static const struct {
		uint64_t a, b; /* bytes of what is returned at each site */
		const char *kmalloc, *cache;
		const char *what;
	} rows[] = {
		{100, 190, "struct a", "struct b", "an object has the structure that is returned"},
		{99, 190, "(kmalloc)", "struct b", "kmalloc() is asked for all of a structure"},
		{100, 191, "struct a", "cache 3", "nor is an object smaller than its structure"},
		{100, 180, "struct a", "cache 3", "a cache has objects of the structure's size"},
		{0, 0, "(kmalloc)", "cache 3", "without structures caches are objects"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sidecar_symbol symbols[] = {
			{SITE_A, SITE_A, 0x100, "a", {rows[i].a, "struct a"}, {.size = 0}},
			{SITE_B, SITE_B, 0x100, "b", {rows[i].b, "struct b"}, {.size = 0}}};
		const struct sidecar sidecar = {.symbols = symbols, .nr_symbols = 2};
		const struct grouping by = {{BY_OBJECT}, 1};
		struct sums a;
		struct text text;

		begin_with(&a, &sidecar, BY_OBJECT, 0, 1);
		groups_destroy(a.groups);
		a.groups = groups_create(&by, a.heap, &sidecar);
		feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, 100, 128, 1010));
		text = groups_text(a.groups, groups_get(a.groups, 0));
		is_str(text.s, rows[i].kmalloc, rows[i].what);
		alloc_in_cache(&a, 3, 0x2000, 1020);
		text = groups_text(a.groups, groups_get(a.groups, 1));
		is_str(text.s, rows[i].cache, rows[i].what);
		end(&a);
	}
}

static void test_dimensions(void)
{
	static const struct {
		enum dimension by[2];
		size_t n, groups;
		uint64_t first;
		const char *what;
	} rows[] = {
		{{BY_CACHE}, 1, 3, GROUP_NO_CACHE + KMEM_TYPE_PAGES, "each cache is a group"},
		{{BY_SIZE}, 1, 4, 8192, "each size is a group"},
		{{BY_SIZECLASS}, 1, 4, 8192, "each size class is a group"},
		{{BY_POINTER}, 1, 4, 0x2000, "each address is a group"},
		{{BY_TYPE}, 1, 3, KMEM_TYPE_PAGES, "each type is a group"},
		{{BY_OBJECT}, 1, 3, GROUP_NO_CACHE + KMEM_TYPE_PAGES, "each cache is an object"},
		{{BY_VCPU}, 1, 2, 0, "each vCPU is a group"},
		{{BY_NODE}, 1, 1, UINT32_MAX, "each node is a group"},
		{{BY_MODULE}, 1, 1, 0, "all without a name are one module"},
		{{BY_FUNCTION}, 1, 2, SITE_A, "a call site without a name is a function"},
		{{BY_CACHE, BY_CALLSITE},
		 2,
		 3,
		 GROUP_NO_CACHE + KMEM_TYPE_PAGES,
		 "each combination of cache and call site is a group"},
		{{BY_CALLSITE, BY_SIZE},
		 2,
		 4,
		 SITE_A,
		 "each combination of call site and size is a group"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sums a;

		begin(&a, rows[i].by[0], rows[i].by[1], rows[i].n);
		feed_sample(&a);
		is_u64(groups_count(a.groups), rows[i].groups, rows[i].what);
		is_u64(first(&a, MEASURE_BYTES).keys[0], rows[i].first,
		       "the group with most bytes comes first");
		end(&a);
	}
}

/* What happened before the window has only changed what is live. */
static void test_window(void)
{
	struct sums a;
	struct group group;

	begin(&a, BY_CALLSITE, 0, 1);
	a.counted = false;
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 30, 32, 10));
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, 30, 32, 20));
	a.counted = true;
	feed(&a, 0, make_free(KMEM_TYPE_KMALLOC, 0x100, FREER, 30));
	group = first(&a, MEASURE_LIVE);
	ok(group.hits == 0 && group.frees == 1 && group.live_bytes == 32,
	   "allocations before the window are live in it, and not counted");
	end(&a);
}

static void test_older(void)
{
	struct sums a;
	struct group group;

	begin(&a, BY_CALLSITE, 0, 1);
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 30, 32, 10));
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, 60, 64, 20));
	groups_count_older(a.groups, 10);
	group = first(&a, MEASURE_LIVE);
	ok(group.live_bytes == 32 && group.live_objects == 1 && group.hits == 2,
	   "only what is old enough counts as live");
	end(&a);
}

static void test_overflow(void)
{
	struct sums a;

	begin(&a, BY_CALLSITE, 0, 1);
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 8, 8, 2));
	feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, UINT64_MAX, UINT64_MAX, 4));
	is_u64(first(&a, MEASURE_BYTES).allocated, UINT64_MAX,
	       "a sum stays at its maximum rather than wrap");
	end(&a);
}

/* Memory grows with live objects, not with the trace. */
static void test_memory(void)
{
	enum { ROUNDS = 500000, LIVE = 10 };
	struct sums a;

	begin(&a, BY_CALLSITE, 0, 1);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t ptr = 0xffff888000000000 + i * 64;

		feed(&a, 0, make_alloc(KMEM_TYPE_KMALLOC, ptr, SITE_A, 60, 64, (int64_t)i));
		if (i >= LIVE)
			feed(&a, 0,
			     make_free(KMEM_TYPE_KMALLOC, ptr - LIVE * 64, FREER, (int64_t)i));
	}
	is_u64(first(&a, MEASURE_HITS).hits, ROUNDS, "a million records are read");
	is_u64(first(&a, MEASURE_HITS).peak_bytes, 64 * (LIVE + 1),
	       "no more objects are held than are live");
	ok(groups_memory(a.groups) + heap_memory(a.heap) < 256 << 10,
	   "memory does not grow with the trace: %zu bytes",
	   groups_memory(a.groups) + heap_memory(a.heap));
	end(&a);
}

/* A block of four pages is freed page by page. */
static void test_one_group(void)
{
	const struct grouping by = {{BY_TYPE}, 1};
	struct beside b = {.by_type.counted = true};
	struct sums *sums = &b.by_type;
	struct group group;

	sums->heap = heap_create(NULL, take_beside, &b);
	sums->groups = groups_create(&by, sums->heap, NULL);
	if (!sums->heap || !sums->groups)
		abort();
	feed(sums, 0, make_alloc(KMEM_TYPE_PAGES, 0x4000, SITE_A, 16384, 16384, 1000));
	feed(sums, 1, make_free(KMEM_TYPE_PAGES, 0x5000, FREER, 1010));
	feed(sums, 0, make_alloc(KMEM_TYPE_PAGES, 0x8000, SITE_A, 4096, 4096, 1020));
	group = first(sums, MEASURE_BYTES);
	is_u64(b.all.live_objects, 4, "a group has the pieces of a block that was split");
	is_u64(b.all.live_bytes, 4 * HEAP_PAGE_SIZE, "the pieces have the bytes of the block");
	is_u64(b.all.live_bytes, group.live_bytes, "one group has the live bytes of a type's");
	is_u64(b.all.cross_cpu, 1, "one group counts its cross-CPU frees");
	is_u64(b.all.peak_bytes, group.peak_bytes, "one group has the peak of a type's");
	end(sums);
}

int main(void)
{
	test_call_sites();
	test_nodes();
	test_negative_node();
	test_dimensions();
	test_objects();
	test_window();
	test_older();
	test_overflow();
	test_one_group();
	test_memory();
	return tap_done();
}
