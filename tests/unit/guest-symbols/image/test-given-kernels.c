/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Types that are given for Debian's kernels ($KERNELS_DIR), each's own and those of all others; and
 * the same of System.maps, of kernels that are built here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};
enum { NR_VERSIONS = sizeof(versions) / sizeof(versions[0]) };

static struct kernel_given types_of(const struct kernel_image *image)
{
	const uint64_t start = symbols_address(image->symbols, "__start_BTF");
	const size_t size = symbols_address(image->symbols, "__stop_BTF") - start;

	struct kernel_given given = {.btf.path = "BTF"};

	if (given_types_parse(kernel_image_bytes(image, start, size), size, &given.btf.types, NULL))
		abort();
	return given;
}

/* Returns 0, or why the kernel does not take these types. */
static int load_with(const char *version, const struct kernel_given *given,
		     struct kernel_image **out, struct error *err)
{
	char path[FETCHED_KERNEL_PATH];

	return kernel_image_open(fetched_kernel_path(path, version), given, out, err);
}

static void test_own(const struct kernel_image *image, const struct kernel_given *given,
		     const char *version)
{
	const struct alloc_points *points, *expected;
	struct kernel_image *other;
	struct error err;

	if (!ok(!load_with(version, given, &other, &err) && other->btf_is_given,
		"%s: its own types are taken from elsewhere", version))
		return;
	ok(btf_count(other->btf) == btf_count(image->btf) &&
		   !alloc_points_of(image, &expected, &err) &&
		   !alloc_points_of(other, &points, &err) && points->n == expected->n &&
		   points->n > 10,
	   "%s: with these the same allocators are found", version);
	kernel_image_destroy(other);
}

static void test_others(const struct kernel_given *given, const char *version)
{
	for (size_t i = 0; i < NR_VERSIONS; i++) {
		struct kernel_image *other;
		struct error err;
		const int ret = versions[i] == version
					? -ESTALE
					: load_with(versions[i], given, &other, &err);

		if (ret == -ENOENT)
			continue;
		if (!ok(ret == -ESTALE, "%s: does not take the types of %s", versions[i], version))
			tap_diag("%s", err.text);
		if (!ret)
			kernel_image_destroy(other);
	}
}

static void test(const struct kernel_image *image, const char *version)
{
	struct kernel_given given = types_of(image);

	test_own(image, &given, version);
	test_others(&given, version);
	btf_destroy(given.btf.types);
}

/* --- System.maps ------------------------------------------------------------------------------ */

static const char *const built[] = {"6.1-textsyms", "6.12-bare", "6.12-plain", "6.12-lto"};
enum { NR_BUILT = sizeof(built) / sizeof(built[0]) };

static void test_map(const char *version, const char *of)
{
	char path[FETCHED_KERNEL_PATH], map[FETCHED_KERNEL_PATH];
	struct kernel_image *image = NULL;
	struct kernel_given given;
	struct error err = {0};
	int ret;

	fetched_kernel_path(map, of);
	strcpy(strrchr(map, '/'), "/System.map");
	if (access(fetched_kernel_path(path, version), R_OK) || access(map, R_OK)) {
		tap_skip(map, "not built");
		return;
	}
	if (kernel_given_open(map, NULL, &given, &err))
		abort();
	ret = kernel_image_open(path, &given, &image, &err);
	ok(version == of ? !ret : ret == -ESTALE && strstr(err.text, "not the symbols of this"),
	   "%s takes the map of %s only if it is its own (%s)", version, of, err.text);
	kernel_image_destroy(image);
	kernel_given_close(&given);
}

int main(void)
{
	const char *list[NR_VERSIONS + 1] = {NULL};

	for (size_t i = 0; i < NR_VERSIONS; i++)
		list[i] = versions[i];
	for (size_t i = 0; i < NR_BUILT * NR_BUILT; i++)
		test_map(built[i / NR_BUILT], built[i % NR_BUILT]);
	return fetched_kernels_test(list, test);
}
