/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_GFP_NAMES_H
#define SONDE_GUEST_SYMBOLS_KMEM_GFP_NAMES_H

#include "formats/event/trace-info.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * The names of the kernel's GFP flags, from the table by which its own trace events print them:
 * gfpflag_names (mm/debug.c), an array of struct trace_print_flags {unsigned long mask; const char
 * *name} that ends with a mask of 0. Combinations such as GFP_KERNEL come before single flags.
 * Fills info->gfp_names and info->nr_gfp_names; none if the image has no such table.
 */
void gfp_names_read(const struct kernel_image *image, struct trace_info *info);

#endif
