/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_IMAGE_RANGE_H
#define SONDE_INTROSPECT_KERNEL_IMAGE_RANGE_H

#include <stdint.h>
#include "introspect/guest/guest.h"

/* Where a guest's page tables map a kernel: in steps of 2 MiB, from its _text on. */
struct image_range {
	uint64_t gva, gpa;
	uint64_t size; /* up to the last part of it that is mapped; what is freed lies in between */
};

enum { KERNEL_MAPPING_MAX = 128 << 20 /* more is cut off: no kernel is that large */ };

/*
 * Look through the tables of a vCPU in this state for what lies linearly in the range that x86-64
 * Linux keeps for its image (Documentation/arch/x86/x86_64/mm.rst). A vCPU in user mode will do:
 * with page table isolation (KPTI) the kernel's own table is the page before that for user mode.
 * -ENOENT if there is nothing: another system, or the firmware, or a boot loader.
 */
int image_range_find(struct guest *guest, const struct guest_sregs *sregs, struct image_range *out,
		     struct error *err);

#endif
