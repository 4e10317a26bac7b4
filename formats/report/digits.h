/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_DIGITS_H
#define SONDE_FORMATS_REPORT_DIGITS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/*
 * Numbers as text, for millions of lines: no printf(). Each returns where it ends, and may write up
 * to DIGITS_ROOM bytes from `at` on.
 */
enum { DIGITS_ROOM = 24 };

/* "00", "01", ... "99" */
extern const char digit_pairs[201];

static inline void digits_put_pair(char *at, unsigned int value)
{
	memcpy(at, digit_pairs + 2 * value, 2);
}

static inline char *digits_put_decimal(char *at, uint64_t value)
{
	char digits[2 * DIGITS_ROOM];
	unsigned int n = DIGITS_ROOM;

	for (; value >= 100; value /= 100)
		digits_put_pair(digits + (n -= 2), (unsigned int)(value % 100));
	if (value >= 10)
		digits_put_pair(digits + (n -= 2), (unsigned int)value);
	else
		digits[--n] = (char)('0' + value);
	memcpy(at, digits + n, DIGITS_ROOM);
	return at + (DIGITS_ROOM - n);
}

static inline char *digits_put_signed(char *at, int64_t value)
{
	if (value >= 0)
		return digits_put_decimal(at, (uint64_t)value);
	*at++ = '-';
	return digits_put_decimal(at, -(uint64_t)value);
}

/* Nine digits of a value below 1,000,000,000. */
static inline char *digits_put_nine(char *at, uint32_t value)
{
	uint32_t high = value / 100000, low = value % 100000;

	digits_put_pair(at, high / 100);
	digits_put_pair(at + 2, high % 100);
	at[4] = (char)('0' + low / 10000);
	digits_put_pair(at + 5, low / 100 % 100);
	digits_put_pair(at + 7, low % 100);
	return at + 9;
}

/* Each 4 bits in a byte of its own, the first in the last one. */
static inline uint64_t digits_spread(uint32_t value)
{
	uint64_t x = value;

	x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
	x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
	return (x | x << 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
}

/* Eight digits: '0' to '9', and 39 more for 'a' to 'f'. */
static inline void digits_put_eight_hex(char *at, uint32_t value)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x = digits_spread(value), letters = (x + 6 * ones) >> 4 & ones;

	x = htobe64(x + '0' * ones + letters * ('a' - '0' - 10));
	memcpy(at, &x, sizeof(x));
}

/* "0x1f" */
static inline char *digits_put_hex(char *at, uint64_t value)
{
	unsigned int n = value ? (67 - (unsigned int)__builtin_clzll(value)) / 4 : 1;
	char digits[32];

	digits_put_eight_hex(digits, (uint32_t)(value >> 32));
	digits_put_eight_hex(digits + 8, (uint32_t)value);
	memcpy(at, "0x", 2);
	memcpy(at + 2, digits + 16 - n, 16);
	return at + 2 + n;
}

#endif
