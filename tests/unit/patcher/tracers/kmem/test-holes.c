/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is recorded of bulk page allocations that fill the holes of an array. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { PAGES = 80, KEY = 0x1000, PFN = 1000 };

static struct fake_session fs;
static uint64_t words[PAGES];
static const struct probe_ref *bulk;

/* As if kmem_cache_alloc_bulk(cache, gfp, count, array) allocated pages. */
static void make_page_allocator(void)
{
	const struct alloc_points *points;

	if (alloc_points_of(&fs.fg.base.image, &points, NULL))
		abort();
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].entry.action == ALLOC_ACTION_ALLOC_BULK)
			points->v[i].entry.type = KMEM_TYPE_PAGES;
}

static void begin(void)
{
	fake_session_create(&fs);
	make_page_allocator();
	if (trace_session_start(fs.session, NULL, NULL))
		abort();
	for (size_t i = 0; i < fs.session->tracers.nr_refs; i++)
		if (!strcmp(fs.session->tracers.refs[i].probe->name, "kmem_cache_alloc_bulk"))
			bulk = &fs.session->tracers.refs[i];
	if (!bulk)
		abort();
	for (unsigned int i = 0; i < PAGES; i++)
		words[i] = fake_page(PFN + i);
}

static void emit(struct probe_hit hit, enum probe_point point, const uint64_t *items, size_t n)
{
	hit.key = KEY;
	hit.time_ns = 1;
	do {
		hit.items = items;
		hit.nr_items = n < CAPTURE_MAX_ITEMS ? n : CAPTURE_MAX_ITEMS;
		fake_session_emit(&fs, bulk, point, &hit);
		items += hit.nr_items;
		n -= hit.nr_items;
	} while (n);
}

/* A call whose array held words[0..n) behind its first hole, and holds all words at its return. */
static void call(size_t n)
{
	emit((struct probe_hit){.args = {0, 0xcc0, PAGES, 0x5000}}, POINT_ENTRY, words, n);
	emit((struct probe_hit){.result = PAGES, .saved = 1}, POINT_RETURN, words, PAGES);
}

static bool is_page(size_t i, unsigned int number)
{
	const struct kmem_record *r = &fs.events[i].record;

	return r->event_id == KMEM_EVENT_ALLOC && r->type_id == KMEM_TYPE_PAGES &&
	       r->ptr == fake_direct((uint64_t)(PFN + number) << 12);
}

static void test_filled(size_t n, const char *label)
{
	size_t recorded;
	bool good;

	begin();
	call(n);
	recorded = fake_session_recorded(&fs);
	good = recorded == PAGES - n || recorded == FAKE_MAX_EVENTS;
	for (size_t i = 0; i < recorded && good; i++)
		good = is_page(i, (unsigned int)(n + i));
	ok(good, "%s", label);
	is_u64(fake_session_count(&fs, COUNTER_LOST), 0, "none of them is lost");
	is_u64(fake_session_count(&fs, COUNTER_NESTED), n, "the others are counted");
	fake_session_end(&fs);
}

/* `n` words of its array were filled when it began, and all are at its return. */
static void test_front(uint64_t n, const char *label)
{
	begin();
	emit((struct probe_hit){.args = {0, 0xcc0, PAGES, 0x5000}}, POINT_ENTRY, NULL, 0);
	emit((struct probe_hit){.result = PAGES, .saved = 1 + n}, POINT_RETURN, words + n,
	     PAGES - n);
	ok(fake_session_recorded(&fs) == PAGES - n || fake_session_recorded(&fs) == FAKE_MAX_EVENTS,
	   "%s", label);
	is_u64(fake_session_count(&fs, COUNTER_NESTED), n, "they are counted once");
	is_u64(fake_session_count(&fs, COUNTER_LOST) + fake_session_count(&fs, COUNTER_NULL_ALLOCS),
	       0, "as nothing else");
	fake_session_end(&fs);
}

/* The page was noted for a call whose return has been lost, and is now allocated by another. */
static void test_stale(void)
{
	static const struct probe_hit entry = {.args = {0, 0xcc0, PAGES, 0x5000}};
	struct probe_hit hit = entry;

	begin();
	emit(entry, POINT_ENTRY, words, 1);
	hit.key = 2 * KEY;
	fake_session_emit(&fs, bulk, POINT_ENTRY, &hit);
	hit = (struct probe_hit){
		.key = 2 * KEY, .result = 1, .saved = 1, .items = words, .nr_items = 1};
	fake_session_emit(&fs, bulk, POINT_RETURN, &hit);
	is_u64(fake_session_recorded(&fs), 1,
	       "a page that was in the array of another call is recorded");
	fake_session_end(&fs);
}

/* Likewise, by another call at the same place of the same stack. */
static void test_forgotten(void)
{
	static const struct probe_hit entry = {.args = {0, 0xcc0, PAGES, 0x5000}};

	begin();
	emit(entry, POINT_ENTRY, words, 1);
	call_table_clear(fs.session->calls);
	emit(entry, POINT_ENTRY, words + 1, 1);
	emit((struct probe_hit){.result = 1, .saved = 1}, POINT_RETURN, words, 1);
	is_u64(fake_session_recorded(&fs), 1,
	       "a page that was noted for a call that is forgotten is recorded");
	fake_session_end(&fs);
}

int main(void)
{
	test_filled(0, "all pages are new in an array without pages behind its first hole");
	test_filled(20, "pages that lay behind a hole before are not recorded");
	test_filled(70, "nor are more pages than a record holds");
	test_filled(PAGES, "nothing is recorded if all were there");
	test_front(10, "pages in front of the first hole are not recorded");
	test_front(PAGES, "nothing is recorded of an array without holes");
	test_stale();
	test_forgotten();
	return tap_done();
}
