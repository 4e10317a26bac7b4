/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kmem tracer records of calls that allocate or free many objects. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { SLAB_OBJECTS = 40 };

static struct fake_session fs;

static bool is_free(size_t i, enum kmem_type_id type, uint64_t ptr)
{
	const struct kmem_record *r = &fs.events[i].record;

	return r->event_id == KMEM_EVENT_FREE && r->type_id == type && r->ptr == ptr;
}

/* Object n of the fake slab page, which has room for SLAB_OBJECTS. */
static uint64_t object(unsigned int n)
{
	return fake_object() + n * FAKE_CACHE_SIZE;
}

static void put_objects(uint64_t gpa, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		fake_put64(&fs.fg.base, gpa + i * 8, object(i));
}

static void put_sheaf(uint32_t size, uint32_t cache_flags)
{
	fake_put64(&fs.fg.base, FAKE_ARRAY_GPA + FAKE_SHEAF_CACHE, fake_cache());
	fake_put32(&fs.fg.base, FAKE_ARRAY_GPA + FAKE_SHEAF_SIZE, size);
	fake_put32(&fs.fg.base, FAKE_CACHE_GPA + FAKE_CACHE_FLAGS, cache_flags);
	put_objects(FAKE_ARRAY_GPA + FAKE_SHEAF_OBJECTS, size < SLAB_OBJECTS ? size : SLAB_OBJECTS);
}

static void test_sheaf(void)
{
	uint64_t rcu_head = fake_direct(FAKE_ARRAY_GPA + FAKE_SHEAF_RCU_HEAD);

	fake_session_begin(&fs);
	put_sheaf(3, 0);
	is_u64((uint64_t)fake_session_call(&fs, 1, FAKE_FREE_SHEAF, rcu_head), 1,
	       "a free of a sheaf hits one trap");
	put_sheaf(1, 1u << FAKE_KMALLOC_BIT);
	fake_session_call(&fs, 1, FAKE_FREE_SHEAF, rcu_head);
	is_u64(fake_session_recorded(&fs), 4, "a free of a sheaf is one record for each object");
	for (unsigned int i = 0; i < 3; i++)
		ok(is_free(i, KMEM_TYPE_CACHE, object(i)) && fs.events[i].record.cache,
		   "object %u of a cache's sheaf is a free from this cache", i);
	ok(is_free(3, KMEM_TYPE_KMALLOC, object(0)),
	   "an object of a kmalloc cache's sheaf is a free of kmalloc memory");
	is_u64(kmem_class_of(&fs.events[3].record), KMEM_CLASS_KFREE,
	       "which the class of these describes");
	fake_session_call(&fs, 1, FAKE_FREE_SHEAF, 0x1234);
	is_u64(fake_session_count(&fs, COUNTER_LOST), 1,
	       "a sheaf that cannot be read counts as one lost event");
	fake_session_end(&fs);
}

static void test_huge_sheaf(void)
{
	struct trace_status status;

	fake_session_begin(&fs);
	put_sheaf(UINT32_MAX, 0);
	fake_session_call(&fs, 1, FAKE_FREE_SHEAF,
			  fake_direct(FAKE_ARRAY_GPA + FAKE_SHEAF_RCU_HEAD));
	status = fake_session_status(&fs);
	is_u64(fake_session_recorded(&fs), SLAB_OBJECTS,
	       "of a sheaf with a forged size the objects that exist are recorded");
	is_u64(status.counters.v[COUNTER_LOST] + status.counters.v[COUNTER_NULL_FREES],
	       UINT32_MAX - SLAB_OBJECTS,
	       "of a sheaf with a forged size all other objects are counted as lost or NULL");
	fake_session_end(&fs);
}

/* As if BTF said that kmem_cache_alloc_bulk() returns a bool. */
static void return_bool(void)
{
	const struct alloc_points *points;

	if (alloc_points_of(&fs.fg.base.image, &points, NULL))
		abort();
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].entry.action == ALLOC_ACTION_ALLOC_BULK)
			points->v[i].entry.all_or_none = true;
}

/* fake_alloc_bulk(cache, gfp, 4, array) with what happens in it, 0 for nothing, and its result. */
static void alloc_bulk_as(uint64_t during, uint64_t result_count, bool is_bool)
{
	struct guest_regs *regs = &fs.fg.vcpus[0].regs;

	fake_session_create(&fs);
	if (during)
		fake_branch(&fs.fg, FAKE_DURING_BULK, 0xe8, during);
	fake_load_rax(&fs.fg, FAKE_BULK_RESULT, result_count);
	fake_session_keep_text(&fs);
	if (is_bool)
		return_bool();
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
	put_objects(FAKE_ARRAY_GPA, 4);
	regs->rsi = 0xcc0;
	regs->rdx = 4;
	regs->rcx = fake_direct(FAKE_ARRAY_GPA);
	regs->r8 = object(2);
	fake_session_call(&fs, 0, FAKE_ALLOC_BULK, fake_cache());
}

static void alloc_bulk(uint64_t during, uint64_t result_count)
{
	alloc_bulk_as(during, result_count, false);
}

static bool is_bulk_alloc(size_t i, uint64_t ptr)
{
	const struct kmem_record *r = &fs.events[i].record;

	return r->event_id == KMEM_EVENT_ALLOC && r->type_id == KMEM_TYPE_CACHE && r->ptr == ptr &&
	       r->call_site == fake_session_call_site() && r->bytes_req == FAKE_CACHE_OBJECT_SIZE &&
	       r->bytes_alloc == FAKE_CACHE_SIZE && r->gfp_flags == 0xcc0;
}

static void test_bulk(void)
{
	alloc_bulk(0, 4);
	is_u64(fake_session_recorded(&fs), 4, "a bulk allocation is one record for each object");
	for (unsigned int i = 0; i < 4; i++)
		ok(is_bulk_alloc(i, object(i)), "object %u of a bulk allocation is recorded", i);
	fake_session_end(&fs);
}

/* 7.2, where the low byte of the result is a bool. */
static void test_bulk_all_or_none(void)
{
	alloc_bulk_as(0, 0xabcd01, true);
	is_u64(fake_session_recorded(&fs), 4,
	       "a bulk allocation that returns true has one record for each object asked for");
	for (unsigned int i = 0; i < 4; i++)
		ok(is_bulk_alloc(i, object(i)), "object %u is recorded", i);
	fake_session_end(&fs);
	alloc_bulk_as(0, 0xabcd00, true);
	is_u64(fake_session_recorded(&fs), 0, "one that returns false has none");
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "and loses nothing");
	is_u64(fake_session_count(&fs, COUNTER_NULL_ALLOCS), 1, "it counts as one that got NULL");
	fake_session_end(&fs);
}

static void test_bulk_of_nothing(uint64_t result, const char *label)
{
	alloc_bulk(0, result);
	is_u64(fake_session_count(&fs, COUNTER_NULL_ALLOCS), 1, label);
	is_u64(fake_session_recorded(&fs) + fake_session_count(&fs, COUNTER_LOST), 0,
	       "without a record, and without a loss");
	fake_session_end(&fs);
}

/* 5.10: it frees what it got one by one. */
static void test_bulk_undone_singly(void)
{
	alloc_bulk(FAKE_UNDO_BULK, 0);
	is_u64(fake_session_recorded(&fs), 2,
	       "a bulk allocation that fails half-way is two records for each object given back");
	ok(is_bulk_alloc(0, object(2)), "an object given back was allocated");
	ok(is_free(1, KMEM_TYPE_CACHE, object(2)), "an object given back is freed");
	fake_session_end(&fs);
}

/* 7.0, where its array is freed as a whole. */
static void test_bulk_undone_at_once(void)
{
	alloc_bulk(FAKE_FREE_BULK, 0);
	is_u64(fake_session_recorded(&fs), 8,
	       "a bulk allocation that fails at its end is two records for each object");
	for (unsigned int i = 0; i < 4; i++)
		ok(is_bulk_alloc(2 * i, object(i)) &&
			   is_free(2 * i + 1, KMEM_TYPE_CACHE, object(i)),
		   "object %u of a failed bulk allocation was allocated and freed", i);
	fake_session_end(&fs);
}

/* Of the same cache, but it is not the bulk allocation's own: reclaim, say. */
static void test_bulk_with_other_free(void)
{
	alloc_bulk(FAKE_CACHE_FREE, 4);
	is_u64(fake_session_recorded(&fs), 5,
	       "a bulk allocation with a nested free is recorded, and the free");
	ok(is_free(0, KMEM_TYPE_CACHE, object(2)),
	   "a free nested in a bulk allocation is a free like any other");
	fake_session_end(&fs);
}

/* As if free_unref_page() were called through another entry point unless it returns to `site`. */
static void count_only(uint64_t site)
{
	const struct alloc_points *points;

	if (alloc_points_of(&fs.fg.base.image, &points, NULL))
		abort();
	for (size_t i = 0; i < points->n; i++) {
		struct alloc_entry *entry = &points->v[i].entry;

		if (strcmp(entry->name, "free_unref_page"))
			continue;
		entry->calls = malloc(sizeof(site));
		if (!entry->calls)
			abort();
		entry->calls[0] = kernel_link(&fs.fg.base.kernel, site);
		entry->nr_calls = 1;
	}
}

static void free_page_counting(uint64_t site)
{
	fake_session_create(&fs);
	count_only(site);
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
	fs.fg.vcpus[0].regs.rsi = 0;
	fake_session_call(&fs, 0, FAKE_FREE_PAGE, fake_page(FAKE_OBJECT_GPA >> 12));
}

static void test_calls_that_count(void)
{
	free_page_counting(fake_session_call_site());
	is_u64(fake_session_recorded(&fs), 1, "a free is recorded whose call counts");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 0, "and is not nested");
	fake_session_end(&fs);
	free_page_counting(fake_session_call_site() + 1);
	is_u64(fake_session_recorded(&fs), 0, "one that another entry point counts is not");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), 1, "but is counted as nested");
	fake_session_end(&fs);
}

int main(void)
{
	test_sheaf();
	test_huge_sheaf();
	test_bulk();
	test_bulk_all_or_none();
	test_bulk_of_nothing(0, "a bulk allocation that returns 0 is counted");
	test_bulk_of_nothing((uint32_t)-12, "so is one that returns an error");
	test_bulk_undone_singly();
	test_bulk_undone_at_once();
	test_bulk_with_other_free();
	test_calls_that_count();
	return tap_done();
}
