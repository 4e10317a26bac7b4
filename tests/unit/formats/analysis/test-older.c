/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde leaks --older: all that it counts of live objects is of those that are so old. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE = 0x1010, BYTES = 64, SECONDS = 20, PER_SECOND = 100, EVERY = 10 };

static struct scratch dir;

/* One of EVERY objects stays. */
static void put_stream(void)
{
	static struct kmem_record records[2 * SECONDS * PER_SECOND];
	size_t n = 0;

	for (size_t i = 0; i < SECONDS * PER_SECOND; i++) {
		const int64_t ns = (int64_t)i * (INT64_C(1000000000) / PER_SECOND) + 1;
		const uint64_t ptr = 0x10000 + i * BYTES;

		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, SITE, BYTES, BYTES, ns);
		if (i % EVERY)
			records[n++] = make_free(KMEM_TYPE_KMALLOC, ptr, SITE, ns + 1);
	}
	stream_put(dir.path, 0, records, n);
}

static uint64_t number(const json_t *site, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(site, key));
}

static void test_older(const char *older, bool all_are_old)
{
	const char *const argv[] = {"leaks", "--json", "--older", older, dir.path, NULL};
	json_t *root = verb_json(cmd_leaks, argv);
	const json_t *site = json_array_get(json_object_get(root, "call_sites"), 0);
	const char *verdict = json_string_value(json_object_get(site, "verdict"));
	const uint64_t live = number(site, "live_objects"), old = number(site, "old_objects");

	ok(verdict && !strcmp(verdict, "leak"), "--older %s: the verdict is by all", older);
	ok(old && (all_are_old ? old == live : old < live), "%llu of %llu objects are old",
	   (unsigned long long)old, (unsigned long long)live);
	is_u64(number(site, "old_bytes"), old * BYTES, "so are their bytes");
	json_decref(root);
}

int main(void)
{
	dir = scratch_make();
	put_stream();
	test_older("1ms", false);
	test_older("15s", true);
	scratch_remove(&dir);
	return tap_done();
}
