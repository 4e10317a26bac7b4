/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/bit-cursor.h"

#include <endian.h>
#include <string.h>

static uint64_t low_bits(uint64_t value, unsigned int bits)
{
	return bits > 63 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static bool has_room(struct bit_cursor *c, unsigned int bits)
{
	if (c->failed || c->pos > c->end || bits > c->end - c->pos)
		c->failed = true;
	return !c->failed;
}

/* How many of `bits` lie in the byte at the cursor. */
static unsigned int part_size(const struct bit_cursor *c, unsigned int bits)
{
	unsigned int left = 8 - (unsigned int)(c->pos % 8);

	return bits < left ? bits : left;
}

/* An integer as the machine has it, from a byte on. False: it has to be put in parts. */
static inline bool put_whole(struct bit_cursor *c, uint64_t value, unsigned int bits)
{
	uint8_t *at = &c->bytes[c->pos / 8];
	uint16_t two;
	uint32_t four;

	if (c->pos % 8)
		return false;
	switch (bits) {
	case 16:
		two = c->big_endian ? htobe16((uint16_t)value) : htole16((uint16_t)value);
		memcpy(at, &two, sizeof(two));
		break;
	case 32:
		four = c->big_endian ? htobe32((uint32_t)value) : htole32((uint32_t)value);
		memcpy(at, &four, sizeof(four));
		break;
	case 48:
		value = c->big_endian ? htobe64(value << 16) : htole64(value);
		memcpy(at, &value, 48 / 8);
		break;
	case 64:
		value = c->big_endian ? htobe64(value) : htole64(value);
		memcpy(at, &value, sizeof(value));
		break;
	default:
		return false;
	}
	c->pos += bits;
	return true;
}

void bit_put(struct bit_cursor *c, uint64_t value, unsigned int bits)
{
	if (!has_room(c, bits) || put_whole(c, value, bits))
		return;
	while (bits) {
		unsigned int n = part_size(c, bits), used = (unsigned int)(c->pos % 8), part;
		uint8_t *byte = &c->bytes[c->pos / 8];

		if (c->big_endian) {
			part = (unsigned int)low_bits(value >> (bits - n), n) << (8 - used - n);
		} else {
			part = (unsigned int)low_bits(value, n) << used;
			value >>= n;
		}
		*byte = (uint8_t)(used ? *byte | part : part);
		c->pos += n;
		bits -= n;
	}
}

uint64_t bit_get(struct bit_cursor *c, unsigned int bits)
{
	unsigned int used = (unsigned int)(c->pos % 8);
	uint8_t window[9] = {0}; /* all the bytes that the integer touches */
	uint64_t value;

	if (!bits || !has_room(c, bits))
		return 0;
	memcpy(window, c->bytes + c->pos / 8, (used + bits + 7) / 8);
	memcpy(&value, window, sizeof(value));
	c->pos += bits;
	if (!c->big_endian)
		return low_bits(le64toh(value) >> used | (uint64_t)window[8] << 1 << (63 - used),
				bits);
	return (be64toh(value) << used | (uint64_t)window[8] >> (8 - used)) >> (64 - bits);
}

int64_t bit_get_signed(struct bit_cursor *c, unsigned int bits)
{
	uint64_t value = bit_get(c, bits), sign = bits ? UINT64_C(1) << (bits - 1) : 0;

	return (int64_t)((value ^ sign) - sign);
}
