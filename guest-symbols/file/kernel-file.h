/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FILE_KERNEL_FILE_H
#define SONDE_GUEST_SYMBOLS_FILE_KERNEL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * A kernel on disk: a bzImage (Documentation/arch/x86/boot.rst) or an ELF vmlinux. Unpacking
 * decompresses a bzImage's payload, so that either way there is a vmlinux ELF. Booting needs no
 * more; for tracing, guest-symbols/image/kernel-image.h analyses it.
 */
enum kernel_format {
	KERNEL_FORMAT_BZIMAGE,
	KERNEL_FORMAT_ELF,
};

struct kernel_file {
	enum kernel_format format;
	char *path;
	const uint8_t *file; /* the file itself (private read-only mapping) */
	size_t file_size;
	const uint8_t *packed; /* compressed payload: inside `file`, or NULL */
	size_t packed_size;
	size_t unpacked_size;   /* bytes of it when decompressed */
	const uint8_t *vmlinux; /* the ELF, inside what was unpacked or `file`; NULL while packed */
	size_t vmlinux_size;
	const uint8_t *relocs; /* relocation table that follows the ELF in the payload, or NULL */
	size_t relocs_size;
	const char *compression; /* "lz4", "zstd", "xz", "gzip", "none" */
	uint8_t *own;            /* what it was unpacked to, if this file has mapped it */
};

/* Open, do not unpack. On success *out is owned by the caller. Errors: errno of open/read, -ENOEXEC
 * not a kernel, -EBADMSG truncated or corrupt (with the file offset), -E2BIG over the output cap.
 */
int kernel_file_map(const char *path, struct kernel_file **out, struct error *err);

/*
 * Decompress what is compressed to `to`: unpacked_size bytes that outlive the file, or NULL for
 * memory that the file owns. May be called again for another place. Errors: as above, without the
 * path; the contents of `to` are then undefined.
 */
int kernel_file_unpack(struct kernel_file *file, uint8_t *to, struct error *err);

/* Open and unpack. */
int kernel_file_open(const char *path, struct kernel_file **out, struct error *err);

/* The same on bytes in memory, which must outlive *out; the fuzz target's entry point. */
int kernel_file_from_memory(const void *bytes, size_t size, struct kernel_file **out,
			    struct error *err);

/* Free everything, NULL-safe. */
void kernel_file_close(struct kernel_file *file);

/*
 * Apply a virtual slide to a kernel image loaded in memory, as the kernel's own decompressor does
 * (arch/x86/boot/compressed/misc.c, handle_relocations(); table made by arch/x86/tools/relocs.c).
 *
 * `loaded` is where link-time virtual address `link_base` was loaded; `size` bytes are writable.
 * `slide` in bytes, a multiple of 2 MiB; 0 does nothing. -ENOTSUP if the file has no table,
 * -EBADMSG if the table points outside [loaded, loaded + size).
 */
int kernel_file_relocate(const struct kernel_file *file, uint8_t *loaded, size_t size,
			 uint64_t link_base, uint64_t slide, struct error *err);

#endif
