/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_IMAGE_RELOCS_H
#define SONDE_GUEST_SYMBOLS_IMAGE_RELOCS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-file.h"

/*
 * Apply a virtual slide to a kernel image loaded in memory, as the kernel's own decompressor does
 * (arch/x86/boot/compressed/misc.c, handle_relocations(); table made by arch/x86/tools/relocs.c).
 *
 * `loaded` is where link-time virtual address `link_base` was loaded; `size` bytes are writable.
 * `slide` in bytes, a multiple of 2 MiB; 0 does nothing. -ENOTSUP if the file has no table,
 * -EBADMSG if the table points outside [loaded, loaded + size).
 */
int relocs_apply(const struct kernel_file *file, uint8_t *loaded, size_t size, uint64_t link_base,
		 uint64_t slide, struct error *err);

#endif
