/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Slab caches that come and go while their names are remembered. */
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/kmem/cache-ids.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/tap.h"

enum { NAME = 16 /* offset of the pointer */, OTHER_NAME = 0x200 };

static struct fake_session fs;

/* A cache of the same sizes at the same address, whose predecessor's free was not seen. */
static void make_again(void)
{
	strcpy((char *)fs.fg.base.ram + FAKE_CACHE_GPA + OTHER_NAME, "other-cache");
	fake_put64(&fs.fg.base, FAKE_CACHE_GPA + NAME, fake_cache() + OTHER_NAME);
}

static void test_again(void)
{
	struct slab_view *slab;
	struct cache_ids *ids;
	uint16_t first;

	fake_session_create(&fs);
	if (slab_view_create(&fs.fg.kernel, &slab, NULL) ||
	    cache_ids_create(slab, fs.writer, NULL, &ids, NULL))
		abort();
	first = cache_ids_get(ids, fake_cache(), 1, 0)->id;
	ok(first && cache_ids_get(ids, fake_cache(), 2, 0)->id == first,
	   "a cache stays what it is");
	make_again();
	is_u64(cache_ids_get(ids, fake_cache(), 2, 0)->id, first, "it is read once per batch");
	ok(cache_ids_get(ids, fake_cache(), 3, 0)->id != first,
	   "another one at its address has a name of its own");
	ok(cache_ids_find(ids, fake_cache(), 0)->id != first, "its frees have that, too");
	cache_ids_destroy(ids);
	slab_view_destroy(slab);
	fake_session_destroy(&fs);
}

/* A cache that the guest has freed, with a hit of before that comes late. */
static void test_freed(void)
{
	struct slab_view *slab;
	struct cache_ids *ids;
	uint16_t first;

	fake_session_create(&fs);
	if (slab_view_create(&fs.fg.kernel, &slab, NULL) ||
	    cache_ids_create(slab, fs.writer, NULL, &ids, NULL))
		abort();
	first = cache_ids_get(ids, fake_cache(), 1, 10)->id;
	cache_ids_free(ids, fake_cache(), 20);
	make_again();
	ok(cache_ids_get(ids, fake_cache(), 1, 15)->id == first &&
		   cache_ids_find(ids, fake_cache(), 20)->id == first,
	   "hits of before it was freed have the old one");
	ok(cache_ids_find(ids, fake_cache(), 21)->id != first &&
		   cache_ids_get(ids, fake_cache(), 1, 22)->id != first,
	   "hits of afterwards have the new one");
	cache_ids_free(ids, fake_cache(), 30);
	cache_ids_free(ids, fake_cache(), 40);
	first = cache_ids_get(ids, fake_cache(), 1, 30)->id;
	fake_put64(&fs.fg.base, FAKE_CACHE_GPA + NAME, fake_cache() + OTHER_NAME + 1);
	ok(cache_ids_get(ids, fake_cache(), 1, 35)->id != first,
	   "one that is freed twice is another one from the first time on");
	first = cache_ids_get(ids, fake_cache(), 1, 35)->id;
	cache_ids_free(ids, fake_cache(), 50);
	cache_ids_forget_freed(ids);
	make_again();
	ok(cache_ids_get(ids, fake_cache(), 1, 45)->id != first, "in the end it is forgotten");
	cache_ids_destroy(ids);
	slab_view_destroy(slab);
	fake_session_destroy(&fs);
}

int main(void)
{
	test_again();
	test_freed();
	return tap_done();
}
