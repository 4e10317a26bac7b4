/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a hostile guest can make the kmem tracer remember comes out of the guest's budget. */
#include <stdlib.h>
#include "patcher/session/internal.h"
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { PAGES = 100000, SMALL = 64 << 10 };

/* Arrays of bulk calls whose return is never seen. */
static void test_pages(void)
{
	struct filled_pages *filled;
	struct budget budget;
	uint64_t page = 0, call = 0;

	budget_init(&budget, SMALL);
	if (filled_pages_create(&budget, &filled, NULL))
		abort();
	while (page < PAGES && filled_pages_note(filled, &call, &page, 1))
		page++;
	ok(page && page < PAGES,
	   "pages of open bulk calls fit into the budget, or are refused: %lu", page);
	is_u64(budget.refused, 1, "a refusal is counted");
	filled_pages_clear(filled);
	is_u64(budget.used, 0, "when the calls are forgotten, the budget has all of it back");
	page = 0;
	filled_pages_note(filled, &call, &page, 1);
	ok(budget.used, "later pages come out of the budget, too");
	filled_pages_destroy(filled);
	is_u64(budget.used, 0, "in the end the budget has all of it back");
}

static void test_caches(void)
{
	struct fake_session fs;
	struct slab_view *slab;
	struct cache_ids *ids;
	struct budget budget;

	fake_session_create(&fs);
	budget_init(&budget, SMALL);
	if (slab_view_create(&fs.fg.kernel, &slab, NULL) ||
	    cache_ids_create(slab, fs.writer, &budget, &ids, NULL))
		abort();
	ok(cache_ids_get(ids, fake_cache(), 1, 0) && budget.used,
	   "a cache that is remembered comes out of the budget");
	cache_ids_destroy(ids);
	is_u64(budget.used, 0, "which has it back in the end");
	budget_init(&budget, 1);
	if (cache_ids_create(slab, fs.writer, &budget, &ids, NULL))
		abort();
	ok(cache_ids_get(ids, fake_cache(), 1, 0) && cache_ids_get(ids, fake_cache(), 2, 0) &&
		   budget.refused,
	   "a cache that does not fit is known nevertheless");
	cache_ids_destroy(ids);
	slab_view_destroy(slab);
	fake_session_destroy(&fs);
}

/* A session gives its tables the budget of its guest. */
static void test_session(void)
{
	struct fake_session fs;
	size_t before;

	fake_session_begin(&fs);
	before = fs.fg.guest.budget->used;
	fake_session_call(&fs, 0, FAKE_CACHE_ALLOC, 0);
	ok(fs.fg.guest.budget->used > before, "a session's caches come out of its guest's budget");
	fake_session_end(&fs);
}

int main(void)
{
	test_pages();
	test_caches();
	test_session();
	return tap_done();
}
