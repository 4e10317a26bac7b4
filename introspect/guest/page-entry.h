/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_PAGE_ENTRY_H
#define SONDE_INTROSPECT_GUEST_PAGE_ENTRY_H

#include <stdint.h>

/* An entry of an x86-64 page table of any level (Intel SDM vol. 3, 4.5.4, tables 4-15 to 4-20). */
enum {
	ENTRY_PRESENT = 1 << 0,
	ENTRY_WRITABLE = 1 << 1,
	ENTRY_USER = 1 << 2,
	ENTRY_ACCESSED = 1 << 5,
	ENTRY_DIRTY = 1 << 6,
	ENTRY_LARGE = 1 << 7, /* above level 1: a page, not another table */

	TABLE_ENTRIES = 512,
};
#define ENTRY_NX (UINT64_C(1) << 63)
#define ENTRY_FRAME UINT64_C(0x000ffffffffff000)

#endif
