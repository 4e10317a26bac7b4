/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

/* The allocator of an image whose BTF has these structures. */
static const char *of_structs(const struct fake_struct *structs)
{
	static const struct fake_enumerator none[] = {{NULL, 0}};
	struct kernel_image image = {0};
	uint8_t bytes[4096];
	const char *name;

	if (btf_parse(bytes, fake_btf(structs, none, bytes, sizeof(bytes)), &image.btf, NULL))
		abort();
	name = slab_allocator_of(&image);
	btf_destroy(image.btf);
	return name;
}

static void test_structures(void)
{
	static const struct fake_struct slub[] = {
		{"kmem_cache", 64, {{"cpu_slab", 0, 8, 0, 0}, {"oo", 8, 4, 0, 0}}},
		{NULL, 0, {{0}}}};
	static const struct fake_struct slab[] = {
		{"kmem_cache", 64, {{"cpu_cache", 0, 8, 0, 0}, {"size", 8, 4, 0, 0}}},
		{NULL, 0, {{0}}}};
	static const struct fake_struct slob[] = {{"kmem_cache", 64, {{"size", 8, 4, 0, 0}}},
						  {"slob_block", 2, {{"units", 0, 2, 0, 0}}},
						  {NULL, 0, {{0}}}};
	static const struct fake_struct other[] = {{"kmem_cache", 64, {{"size", 8, 4, 0, 0}}},
						   {NULL, 0, {{0}}}};
	const struct kernel_image no_btf = {0};

	is_str(of_structs(slub), "slub", "a cache with oo is SLUB's");
	is_str(of_structs(slab), "slab", "a cache with cpu_cache is SLAB's");
	is_str(of_structs(slob), "slob", "a kernel with struct slob_block has SLOB");
	is_str(of_structs(other), "", "another one is not known");
	is_str(slab_allocator_of(&no_btf), "", "without BTF nothing is known");
}

static void test_kernel(const char *version)
{
	struct kernel_image *image = fetched_kernel_image(version);

	if (image)
		is_str(slab_allocator_of(image), "slub", version);
	else
		tap_skip(version, "it was not fetched");
	kernel_image_destroy(image);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};

	test_structures();
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		test_kernel(versions[i]);
	return tap_done();
}
