/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Types that are given for Debian's kernels ($KERNELS_DIR), each's own and those of all others. */
#include <errno.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};
enum { NR_VERSIONS = sizeof(versions) / sizeof(versions[0]) };

static struct kernel_given types_of(const struct kernel_image *image)
{
	const uint64_t start = symbols_address(image->symbols, "__start_BTF");
	const size_t size = symbols_address(image->symbols, "__stop_BTF") - start;

	return (struct kernel_given){
		.btf = {"BTF", kernel_image_bytes(image, start, size), size, false}};
}

/* Returns 0, or why the kernel does not take these types. */
static int load_with(const char *version, const struct kernel_given *given,
		     struct kernel_image **out, struct error *err)
{
	char path[FETCHED_KERNEL_PATH];

	return kernel_image_open(fetched_kernel_path(path, version), given, out, err);
}

static void test_own(const struct kernel_image *image, const char *version)
{
	const struct kernel_given given = types_of(image);
	const struct alloc_points *points, *expected;
	struct kernel_image *other;
	struct error err;

	if (!ok(!load_with(version, &given, &other, &err) && other->btf_is_given,
		"%s: its own types are taken from elsewhere", version))
		return;
	ok(btf_count(other->btf) == btf_count(image->btf) &&
		   !alloc_points_of(image, &expected, &err) &&
		   !alloc_points_of(other, &points, &err) && points->n == expected->n &&
		   points->n > 10,
	   "%s: with these the same allocators are found", version);
	kernel_image_destroy(other);
}

static void test_others(const struct kernel_image *image, const char *version)
{
	const struct kernel_given given = types_of(image);

	for (size_t i = 0; i < NR_VERSIONS; i++) {
		struct kernel_image *other;
		struct error err;
		const int ret = versions[i] == version
					? -ESTALE
					: load_with(versions[i], &given, &other, &err);

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
	test_own(image, version);
	test_others(image, version);
}

int main(void)
{
	const char *list[NR_VERSIONS + 1] = {NULL};

	for (size_t i = 0; i < NR_VERSIONS; i++)
		list[i] = versions[i];
	return fetched_kernels_test(list, test);
}
