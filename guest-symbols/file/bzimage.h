/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FILE_BZIMAGE_H
#define SONDE_GUEST_SYMBOLS_FILE_BZIMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/* Whether the bytes begin with an x86 boot sector that has the "HdrS" setup header. */
bool bzimage_probe(const uint8_t *file, size_t size);

/*
 * Where the compressed kernel lies in a bzImage, as file offset and length (Documentation/arch/x86/
 * boot.rst, "payload_offset" and "payload_length"). -ENOTSUP for a boot protocol below 2.08,
 * -EBADMSG if the file is shorter than its header says.
 */
int bzimage_payload(const uint8_t *file, size_t size, size_t *offset, size_t *length,
		    struct error *err);

/*
 * Verify the checksum at the end of a bzImage (boot.rst, "The image checksum") that
 * bzimage_payload() has accepted: -EBADMSG if it is wrong. Kernels since 6.16 have none. Signing
 * sets two fields of the PE header afterwards; they count as 0.
 */
int bzimage_verify(const uint8_t *file, size_t size, struct error *err);

/* More than ten times the largest distribution kernel: a hostile size field cannot fill memory. */
enum { DECOMPRESS_MAX_OUTPUT = 512 << 20 };

/*
 * A bzImage's payload: LZ4 legacy frame, zstd, xz or gzip. Its last four bytes give the size of the
 * output (scripts/Makefile.lib, "size_append"; for gzip RFC 1952, ISIZE).
 *
 * Reads the first and the last bytes only. *compression is a static string. Errors, at offsets
 * relative to `payload`: -EBADMSG not recognised, or empty; -ENOTSUP unsupported compression;
 * -E2BIG over the cap.
 */
int decompress_probe(const uint8_t *payload, size_t size, size_t *out_size,
		     const char **compression, struct error *err);

/*
 * Decompress to `to`, which must have the size that decompress_probe() gave. Errors: those of the
 * probe, and -EBADMSG if the payload is corrupt or gives another number of bytes; part of `to` may
 * have been written by then.
 */
int decompress_payload(const uint8_t *payload, size_t size, uint8_t *to, struct error *err);

#endif
