/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_KERNEL_ORC_TABLE_H
#define SONDE_INTROSPECT_KERNEL_ORC_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/image/kernel-image.h"

/*
 * The ORC tables of an image (arch/x86/include/asm/orc_types.h, arch/x86/kernel/unwind_orc.c;
 * sorted by scripts/sorttable.c at build): n instruction addresses, each a 32-bit offset from its
 * own place, and n entries of 6 bytes. Both point into the image.
 */
struct orc_table {
	const uint8_t *ips, *entries;
	uint64_t ips_link; /* link address of ips[0] */
	size_t n;          /* 0 = the kernel was built without ORC */
	uint8_t type_bits; /* width of orc_entry.type, which changed in 6.4; 0 = BTF does not say */
};

/* An image without (sane) tables gives an empty one. */
void orc_table_init(const struct kernel_image *image, struct orc_table *out);

#endif
