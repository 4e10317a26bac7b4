/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_PAGE_WALK_H
#define SONDE_INTROSPECT_GUEST_PAGE_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"

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

/*
 * x86-64 page walk (Intel SDM vol. 3, 4.5; AMD APM vol. 2, 5.3) over untrusted tables: 4 or 5
 * levels, pages of 4 KiB, 2 MiB and 1 GiB. It reads at most `levels` tables. Every table and the
 * final address must lie in guest RAM.
 */
struct page_walk {
	uint64_t gpa;                    /* of the given address */
	uint64_t page_size;              /* 4096, 2 MiB or 1 GiB */
	bool writable, executable, user; /* as all levels combined allow */
};

/* root: gpa of the top table, as in CR3 (its low 12 bits and bit 63 are ignored); levels: 4 or 5.
 * -EFAULT: not present. -EINVAL: not canonical, or reserved bits. -ERANGE: a table or the page is
 * outside RAM.
 */
int page_walk(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gva,
	      struct page_walk *out, struct error *err);

/*
 * gpa of the table of `level` (1 = page table, 2 = the one above it ...) whose entry for gva a walk
 * reads; root and levels as above. -EFAULT: an entry above it is not present or is a page. Other
 * errors as page_walk().
 */
int page_walk_table(struct guest *guest, uint64_t root, unsigned int levels, uint64_t gva,
		    unsigned int level, uint64_t *table, struct error *err);

#endif
