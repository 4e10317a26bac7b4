/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_HEX_H
#define SONDE_FORMATS_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two lower-case digits for each byte, the first byte first, and a NUL. Returns the number of
 * digits. */
size_t hex_encode(char *out, const void *bytes, size_t size);

/* The same back, in either case; false if the first 2 * size characters are not all digits. */
bool hex_decode(void *out, const char *hex, size_t size);

#endif
