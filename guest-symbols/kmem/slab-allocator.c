/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "guest-symbols/kmem/allocators.h"

static bool has_member(const struct btf_types *btf, const char *member)
{
	struct btf_field field;

	return !btf_field(btf, "kmem_cache", member, &field, NULL);
}

/* include/linux/slub_def.h and slab_def.h up to 6.6, mm/slab.h later; mm/slob.c up to 6.3. */
const char *slab_allocator_of(const struct kernel_image *image)
{
	const struct btf_types *btf = image->btf;

	if (!btf)
		return "";
	if (has_member(btf, "oo"))
		return "slub";
	if (has_member(btf, "cpu_cache"))
		return "slab";
	return btf_struct_size(btf, "slob_block") ? "slob" : "";
}
