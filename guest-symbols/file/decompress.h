/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FILE_DECOMPRESS_H
#define SONDE_GUEST_SYMBOLS_FILE_DECOMPRESS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/* More than ten times the largest distribution kernel; keeps a hostile size field from filling
 * memory. */
enum { DECOMPRESS_MAX_OUTPUT = 512 << 20 };

/*
 * A bzImage's payload: LZ4 legacy frame, zstd, xz or gzip. Its last four bytes give the size of the
 * output (scripts/Makefile.lib, "size_append"; for gzip RFC 1952, ISIZE).
 *
 * Looks at the first and the last bytes only. *compression is a static string. Errors: -EBADMSG not
 * recognised or empty, at an offset relative to `payload`; -ENOTSUP unsupported compression; -E2BIG
 * over the cap.
 */
int decompress_probe(const uint8_t *payload, size_t size, size_t *out_size,
		     const char **compression, struct error *err);

/*
 * Decompress to `to`, which must have the size that decompress_probe() told; anything else than
 * exactly that many bytes is an error. Errors: those of the probe, and -EBADMSG corrupt, at an
 * offset relative to `payload`; part of `to` may have been written by then.
 */
int decompress_payload(const uint8_t *payload, size_t size, uint8_t *to, struct error *err);

#endif
