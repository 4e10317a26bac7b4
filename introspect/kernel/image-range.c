/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/image-range.h"

#include <errno.h>
#include "introspect/guest/page-walk.h"
#include "introspect/guest/control.h"

/* __START_KERNEL_map and the greatest KERNEL_IMAGE_SIZE (Documentation/arch/x86/x86_64/mm.rst). */
#define IMAGES_START 0xffffffff80000000ull
#define IMAGES_SIZE (1ull << 30)
#define STEP (2ull << 20)

/* Parts that do not follow linearly on the first one are modules or somebody else's. */
static struct image_range look_through(struct guest *guest, uint64_t root, unsigned int levels)
{
	struct image_range found = {0};

	for (uint64_t at = 0; at < IMAGES_SIZE; at += STEP) {
		uint64_t gva = IMAGES_START + at;
		struct page_walk walk;

		if (page_walk(guest, root, levels, gva, &walk, NULL))
			continue;
		if (!found.size)
			found = (struct image_range){.gva = gva, .gpa = walk.gpa, .size = STEP};
		else if (gva - found.gva >= KERNEL_MAPPING_MAX)
			break;
		else if (walk.gpa - found.gpa == gva - found.gva)
			found.size = gva - found.gva + STEP;
	}
	return found;
}

int image_range_find(struct guest *guest, const struct guest_sregs *sregs, struct image_range *out,
		     struct error *err)
{
	unsigned int levels = vcpu_paging_levels(sregs);
	struct image_range other;

	*out = (struct image_range){0};
	if (vcpu_in_long_mode(sregs)) {
		*out = look_through(guest, sregs->cr3, levels);
		other = look_through(guest, vcpu_kernel_cr3(sregs->cr3), levels);
		/* Tables for user mode map a part of the kernel, or none. */
		if (other.size > out->size)
			*out = other;
	}
	return out->size ? 0 : error_set(err, ENOENT, "no kernel is mapped");
}
