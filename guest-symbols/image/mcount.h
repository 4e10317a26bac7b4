/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_MCOUNT_H
#define SONDE_GUEST_SYMBOLS_IMAGE_MCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/file/elf-view.h"
#include "guest-symbols/symbols/symbols.h"

/*
 * The lists of patchable sites in a kernel image. *out gets a sorted array of distinct link-time
 * addresses, which the caller frees; NULL, and *n 0, if the kernel has no such list. -EBADMSG if
 * the list's bounds are damaged.
 *
 * mcount_read(): __start_mcount_loc to __stop_mcount_loc, 64-bit addresses (include/asm-generic/
 * vmlinux.lds.h, MCOUNT_REC). Entries that are 0 or outside [text, text_end) are left out: newer
 * builds clear those of weak functions that another definition replaced (scripts/sorttable.c).
 */
int mcount_read(const struct elf_view *view, const struct symbol_table *symbols, uint64_t text,
		uint64_t text_end, uint64_t **out, size_t *n, struct error *err);

/* __return_sites to __return_sites_end: 32-bit, relative to the entry's own address. */
int return_sites_read(const struct elf_view *view, const struct symbol_table *symbols,
		      uint64_t text, uint64_t text_end, uint64_t **out, size_t *n,
		      struct error *err);

/* The first of the sorted addresses that lies in [from, to), or 0. */
uint64_t site_in_range(const uint64_t *sites, size_t n, uint64_t from, uint64_t to);

#endif
