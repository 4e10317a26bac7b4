/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that sonde 0.1.0 recorded, as its own `sonde convert --to ctf` wrote it, and what that
 * program's report, check and convert made of it (in data/). It must stay readable.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define DATA "tests/unit/formats/trace/data"
#define TRACE DATA "/ctf"

static bool has_all(const json_t *now, json_t *old)
{
	json_t *value;
	const char *key;
	size_t i;

	if (json_is_array(old)) {
		if (json_array_size(now) != json_array_size(old))
			return false;
		json_array_foreach(old, i, value)
		{
			if (!has_all(json_array_get(now, i), value))
				return false;
		}
		return true;
	}
	if (!json_is_object(old))
		return json_equal(now, old);
	json_object_foreach(old, key, value)
	{
		if (!has_all(json_object_get(now, key), value))
			return false;
	}
	return true;
}

/* What the old program printed is there, with the same values; more may be. */
static void check_keys(const char *file, const json_t *root)
{
	json_t *old = json_load_file(file, 0, NULL), *value;
	const char *key;

	ok(old, "%s can be read", file);
	json_object_foreach(old, key, value)
		ok(has_all(json_object_get(root, key), value),
		   "%s: key '%s' has the value that it had", file, key);
	json_decref(old);
}

static void same_json(int (*verb)(int, char **), const char *const *argv, const char *file)
{
	json_t *root = verb_json(verb, argv);

	check_keys(file, root);
	json_decref(root);
}

static void test_figures(void)
{
	static const char *const report[] = {"report", "--json", "--sort", "bytes",
					     "--top",  "4",      TRACE,    NULL};
	static const char *const caches[] = {"report", "--json", "--by", "cache", "--sort",
					     "bytes",  "--top",  "4",    TRACE,   NULL};
	static const char *const check[] = {"check", "--json", TRACE, NULL};

	same_json(cmd_report, report, DATA "/report.json");
	same_json(cmd_report, caches, DATA "/caches.json");
	same_json(cmd_check, check, DATA "/check.json");
}

static void test_convert(void)
{
	static const char *const files[] = {"cpu0", "cpu1"};
	struct scratch dir = scratch_make();
	const char *argv[] = {"convert", TRACE, "--to", "kmemtrace", "-o", dir.path, NULL};
	struct verb_result result = verb_run(cmd_convert, argv);

	is_u64((uint64_t)result.status, 0, "the old trace can be converted");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		size_t size = 0, old_size = 0;
		char *bytes = file_get(dir.path, files[i], &size);
		char *old = file_get(DATA "/kmemtrace", files[i], &old_size);

		ok(bytes && old && size == old_size && !memcmp(bytes, old, size),
		   "%s is converted to the same records as then", files[i]);
		free(bytes);
		free(old);
	}
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

int main(void)
{
	test_figures();
	test_convert();
	return tap_done();
}
