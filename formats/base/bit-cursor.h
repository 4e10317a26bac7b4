/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_BIT_CURSOR_H
#define SONDE_FORMATS_BASE_BIT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Integers of 1 to 64 bits at any bit of a byte array, as the Common Trace Format packs them
 * (specification 1.8.3, section 4.1.5): in little-endian data the first bits are the low ones of a
 * byte and of the integer, in big-endian data the high ones. Going past the end writes nothing,
 * reads zeros and latches `failed`.
 */
struct bit_cursor {
	uint8_t *bytes;
	size_t end; /* bits */
	size_t pos; /* bits */
	bool big_endian;
	bool failed;
};

/* Writes whole bytes: the bits behind the last one in its byte become zero. */
void bit_put(struct bit_cursor *c, uint64_t value, unsigned int bits);
uint64_t bit_get(struct bit_cursor *c, unsigned int bits);

/* Sign-extended. */
int64_t bit_get_signed(struct bit_cursor *c, unsigned int bits);

/* Step to the next byte boundary. */
static inline void bit_align(struct bit_cursor *c)
{
	c->pos = (c->pos + 7) & ~(size_t)7;
}

static inline size_t bit_bytes(const struct bit_cursor *c)
{
	return (c->pos + 7) / 8;
}

/* Whether a signed, or unsigned, integer of that many bits can hold `value`. */
static inline bool bit_fits_signed(uint64_t value, unsigned int bits)
{
	return bits > 63 || value + (UINT64_C(1) << (bits - 1)) < UINT64_C(1) << bits;
}

static inline bool bit_fits(uint64_t value, unsigned int bits)
{
	return bits > 63 || value >> bits == 0;
}

#endif
