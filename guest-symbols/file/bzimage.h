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
 * The checksum at the end of a bzImage (boot.rst, "The image checksum"): -EBADMSG if it is wrong.
 * Kernels since 6.16 have none. Signing changes two fields of the PE header afterwards, which were
 * 0. For an image that bzimage_payload() has accepted.
 */
int bzimage_verify(const uint8_t *file, size_t size, struct error *err);

#endif
