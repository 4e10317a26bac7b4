/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/kmem-sums.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE_A = 0x1000, SITE_B = 0x2000, FREER = 0x3000 };

static void feed(struct kmem_sums *sums, unsigned int vcpu, struct kmem_record record)
{
	struct event event = kmem_event_of(&record, &kmem_instance);

	event.vcpu = vcpu;
	if (kmem_sums_add(sums, &event))
		abort();
}

static void alloc_in_cache(struct kmem_sums *sums, uint16_t cache, uint64_t ptr, int64_t timestamp)
{
	struct kmem_record record = make_alloc(KMEM_TYPE_CACHE, ptr, SITE_B, 190, 192, timestamp);

	record.cache = cache;
	feed(sums, 1, record);
}

/*
 * Site A: kmallocs of 30/32 and 100/128 bytes on vCPU 0, the first freed on vCPU 1, and 2 pages,
 * freed. Site B: a cache's objects of 190/192, of which one stays. A free of something older.
 */
static void feed_sample(struct kmem_sums *a)
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

static void test_totals(void)
{
	struct kmem_sums *a = kmem_sums_create(KMEM_BY_CALLSITE, KMEM_ALL_TYPES);
	const struct kmem_totals *totals = kmem_sums_totals(a);

	feed_sample(a);
	is_u64(totals->records, 9, "all records are counted");
	is_u64(totals->sum.hits, 5, "allocations are counted");
	is_u64(totals->free_events, 4, "frees are counted");
	is_u64(totals->unknown_frees, 1,
	       "a free of an object allocated outside the trace is counted apart");
	is_u64(totals->sum.bytes_requested, 30 + 100 + 190 + 190 + 8192,
	       "requested bytes are added up");
	is_u64(totals->sum.bytes_allocated, 32 + 128 + 192 + 192 + 8192,
	       "allocated bytes are added up");
	is_u64(totals->sum.cross_cpu_frees, 1, "frees on another vCPU are counted");
	is_u64(totals->sum.live_objects, 2, "live objects are counted");
	is_u64(totals->sum.live_bytes, 128 + 192, "live bytes are added up");
	is_u64(totals->peak_live_objects, 5, "the greatest number of live objects is kept");
	is_u64(totals->by_type[KMEM_TYPE_KMALLOC].hits, 2,
	       "allocations of kmalloc() are counted apart");
	is_u64(totals->by_type[KMEM_TYPE_KMALLOC].live_bytes, 128,
	       "live bytes of kmalloc() are counted apart");
	is_u64(totals->by_type[KMEM_TYPE_CACHE].live_objects, 1,
	       "live objects of caches are counted apart");
	is_u64(totals->by_type[KMEM_TYPE_PAGES].live_objects, 0, "freed pages are not live");
	is_u64(totals->by_type[KMEM_TYPE_PAGES].bytes_allocated, 8192,
	       "bytes of pages are added up apart");
	ok(totals->first_ns == 1000 && totals->last_ns == 1080,
	   "the first and last time stamp are kept");
	kmem_sums_destroy(a);
}

static void test_call_sites(void)
{
	struct kmem_sums *a = kmem_sums_create(KMEM_BY_CALLSITE, KMEM_ALL_TYPES);
	const struct kmem_group *groups;

	feed_sample(a);
	is_u64(kmem_sums_sort(a, KMEM_SORT_BYTES, &groups), 2, "each call site is a group");
	is_u64(groups[0].key, SITE_A, "groups are sorted by allocated bytes");
	is_u64(groups[0].hits, 3, "a group counts its allocations");
	is_u64(groups[0].cross_cpu_frees, 1,
	       "a cross-CPU free is counted for the call site that allocated");
	is_u64(groups[0].live_bytes, 128, "a group adds up its live bytes");
	is_u64(groups[1].live_objects, 1, "a group counts its live objects");
	ok(kmem_fragmentation(&groups[1]) > 1.04 && kmem_fragmentation(&groups[1]) < 1.05,
	   "fragmentation is the share of allocated bytes that was not requested: 4 of 384");
	kmem_sums_sort(a, KMEM_SORT_LIVE, &groups);
	is_u64(groups[0].key, SITE_B, "groups are sorted by live bytes");
	kmem_sums_sort(a, KMEM_SORT_HITS, &groups);
	is_u64(groups[0].key, SITE_A, "groups are sorted by allocations");
	kmem_sums_sort(a, KMEM_SORT_CROSS_CPU, &groups);
	is_u64(groups[0].key, SITE_A, "groups are sorted by cross-CPU frees");
	kmem_sums_sort(a, KMEM_SORT_FRAGMENTATION, &groups);
	is_u64(groups[0].key, SITE_B, "groups are sorted by fragmentation");
	kmem_sums_destroy(a);
}

static void test_groups(void)
{
	static const struct {
		enum kmem_by by;
		size_t groups;
		uint64_t first;
		const char *what;
	} rows[] = {
		{KMEM_BY_CACHE, 3, KMEM_NO_CACHE + KMEM_TYPE_PAGES, "each cache is a group"},
		{KMEM_BY_SIZE, 4, 8192, "each size is a group"},
		{KMEM_BY_POINTER, 4, 0x2000, "each address is a group"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kmem_sums *a = kmem_sums_create(rows[i].by, KMEM_ALL_TYPES);
		const struct kmem_group *groups;

		feed_sample(a);
		is_u64(kmem_sums_sort(a, KMEM_SORT_BYTES, &groups), rows[i].groups, rows[i].what);
		is_u64(groups[0].key, rows[i].first, "the group with most bytes comes first");
		kmem_sums_destroy(a);
	}
}

static void test_type_filter(void)
{
	struct kmem_sums *a = kmem_sums_create(KMEM_BY_CALLSITE, KMEM_TYPE_CACHE);
	const struct kmem_totals *totals = kmem_sums_totals(a);

	feed_sample(a);
	feed(a, 0, make_free(KMEM_TYPE_KMALLOC, 0x3000, FREER, 1090));
	is_u64(totals->sum.hits, 2, "only allocations of the type are counted");
	is_u64(totals->free_events, 2,
	       "a free counts if its object does, whichever function freed it");
	is_u64(totals->sum.live_objects, 0, "objects freed by kfree() are not live");
	feed(a, 0, make_alloc(KMEM_TYPE_CACHE, 0x100, SITE_A, 8, 8, 1100));
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 8, 8, 1110));
	is_u64(totals->sum.live_objects, 0,
	       "an allocation of another type at the address ends an object's life");
	kmem_sums_destroy(a);
}

static void test_odd_records(void)
{
	struct kmem_sums *a = kmem_sums_create(KMEM_BY_CALLSITE, KMEM_ALL_TYPES);
	const struct kmem_totals *totals = kmem_sums_totals(a);
	struct kmem_record bad = make_alloc(9, 0x100, SITE_A, 8, 8, 1);

	feed(a, 0, bad);
	bad.type_id = 0;
	bad.event_id = 0;
	feed(a, 0, bad);
	is_u64(totals->invalid, 2, "records with unknown ids are counted as invalid");
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_A, 8, 8, 2));
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x100, SITE_B, 16, 16, 3));
	is_u64(totals->missed_frees, 1, "an allocation at a live address is a missed free");
	is_u64(totals->sum.live_bytes, 16, "an address is live once");
	feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, 0x200, SITE_A, UINT64_MAX, UINT64_MAX, 4));
	is_u64(totals->sum.bytes_allocated, UINT64_MAX,
	       "a sum stays at its maximum rather than wrap");
	kmem_sums_destroy(a);
}

/* Memory grows with live objects, not with the trace. */
static void test_memory(void)
{
	enum { ROUNDS = 1000000, LIVE = 10 };
	struct kmem_sums *a = kmem_sums_create(KMEM_BY_CALLSITE, KMEM_ALL_TYPES);
	const struct kmem_totals *totals = kmem_sums_totals(a);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t ptr = 0xffff888000000000 + i * 64;

		feed(a, 0, make_alloc(KMEM_TYPE_KMALLOC, ptr, SITE_A, 60, 64, (int64_t)i));
		if (i >= LIVE)
			feed(a, 0,
			     make_free(KMEM_TYPE_KMALLOC, ptr - LIVE * 64, FREER, (int64_t)i));
	}
	is_u64(totals->records, 2 * ROUNDS - LIVE, "two million records are read");
	is_u64(totals->peak_live_objects, LIVE + 1, "no more objects are held than are live");
	ok(kmem_sums_memory(a) < 64 << 10, "memory does not grow with the trace: %zu bytes",
	   kmem_sums_memory(a));
	kmem_sums_destroy(a);
}

int main(void)
{
	test_totals();
	test_call_sites();
	test_groups();
	test_type_filter();
	test_odd_records();
	test_memory();
	return tap_done();
}
