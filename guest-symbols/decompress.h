/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_DECOMPRESS_H
#define SONDE_GUEST_SYMBOLS_DECOMPRESS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/error.h"

/* More than ten times the largest distribution kernel; keeps a hostile size field from filling
 * memory. */
enum { DECOMPRESS_MAX_OUTPUT = 512 << 20 };

/*
 * Decompress a bzImage's payload: LZ4 legacy frame, zstd, xz, gzip, or nothing at all. Its last
 * four bytes give the size of the output (scripts/Makefile.lib, "size_append"; for gzip RFC 1952,
 * ISIZE), and anything else than exactly that many bytes is an error.
 *
 * *out is mmap()ed, the caller unmaps *out_size bytes. *compression is a static string. Errors:
 * -EBADMSG corrupt, at an offset relative to `payload`; -ENOTSUP unknown compression; -E2BIG over
 * the cap.
 */
int decompress_payload(const uint8_t *payload, size_t size, uint8_t **out, size_t *out_size,
		       const char **compression, struct error *err);

#endif
