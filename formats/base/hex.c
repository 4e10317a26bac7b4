/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/hex.h"

size_t hex_encode(char *out, const void *bytes, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *from = bytes;

	for (size_t i = 0; i < size; i++) {
		out[2 * i] = digits[from[i] >> 4];
		out[2 * i + 1] = digits[from[i] & 15];
	}
	out[2 * size] = '\0';
	return 2 * size;
}

static int value_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(void *out, const char *hex, size_t size)
{
	uint8_t *to = out;

	for (size_t i = 0; i < size; i++) {
		int high = value_of(hex[2 * i]);
		int low = high < 0 ? -1 : value_of(hex[2 * i + 1]);

		if (low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}
