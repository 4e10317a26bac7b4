/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Patterns on Debian's kernels: what they find, and how long it takes. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory than build/kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static size_t resolve(const struct traceable_list *list, const struct function_patterns *patterns,
		      struct error *err)
{
	struct function_selection s;
	struct function_set *set;
	size_t n;

	if (function_set_create(patterns, &set, err))
		abort();
	n = function_set_resolve(set, list, &s, err) ? 0 : s.n;
	if (n)
		function_selection_deinit(&s);
	function_set_destroy(set);
	return n;
}

static size_t count(const struct traceable_list *list, const char *pattern, struct error *err)
{
	struct function_patterns patterns = {0};
	size_t n;

	if (function_patterns_add(&patterns, pattern, strlen(pattern), NULL))
		abort();
	n = resolve(list, &patterns, err);
	function_patterns_deinit(&patterns);
	return n;
}

/* 100 patterns: 50 names, 40 beginnings, 10 parts. */
static void test_many(const char *version, const struct traceable_list *list)
{
	struct function_patterns patterns = {0};
	char text[FUNCTION_PATTERN_MAX];

	for (size_t i = 0; i < 100; i++) {
		const char *name = list->v[list->n / 100 * i].name;

		snprintf(text, sizeof(text), i < 50 ? "%s" : i < 90 ? "%.5s*" : "*%.4s*", name);
		if (function_patterns_add(&patterns, text, strlen(text), NULL))
			abort();
	}
	ok(resolve(list, &patterns, NULL) > 100, "%s: 100 patterns find their functions", version);
	function_patterns_deinit(&patterns);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct traceable_list list = {0};
	struct error err = {0};
	size_t all, names;

	ok(!traceable_list_add_image(&list, image, 0, &err), "%s: the functions are listed",
	   version);
	all = count(&list, "*", &err);
	tap_diag("%s: %zu functions of %zu mcount sites", version, all, image->nr_mcount_sites);
	ok(all > image->nr_mcount_sites * 9 / 10 && all <= image->nr_mcount_sites,
	   "%s: nearly all mcount sites belong to functions that stay", version);
	names = count(&list, "vfs_*", &err);
	ok(names > 20 && names < 200, "%s: vfs_* are %zu functions", version, names);
	is_u64(count(&list, "vfs_read", &err), 1, "vfs_read is one of them");
	is_u64(count(&list, "vfs_raed", &err), 0, "vfs_raed is none");
	ok(strstr(err.text, "did you mean 'vfs_read'?"), "%s: %s", version, err.text);
	ok(!count(&list, "start_kernel", &err) && strstr(err.text, "after boot"),
	   "%s: start_kernel is refused: %s", version, err.text);
	ok(!count(&list, "memcpy", &err) && strstr(err.text, "no mcount site"),
	   "%s: memcpy is refused: %s", version, err.text);
	test_many(version, &list);
	traceable_list_deinit(&list);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
