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
	first = cache_ids_get(ids, fake_cache(), 1)->id;
	ok(first && cache_ids_get(ids, fake_cache(), 2)->id == first, "a cache stays what it is");
	make_again();
	is_u64(cache_ids_get(ids, fake_cache(), 2)->id, first, "it is read once per batch");
	ok(cache_ids_get(ids, fake_cache(), 3)->id != first,
	   "another one at its address has a name of its own");
	ok(cache_ids_find(ids, fake_cache())->id != first, "its frees have that, too");
	cache_ids_destroy(ids);
	slab_view_destroy(slab);
	fake_session_destroy(&fs);
}

int main(void)
{
	test_again();
	return tap_done();
}
