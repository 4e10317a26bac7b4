/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers as text, against printf(). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/report/digits.h"
#include "tests/lib/tap.h"

enum { RANDOM = 100000 };

/* Those around the ends of digits, and any number of bits. */
static uint64_t sample(unsigned int i)
{
	static const uint64_t edges[] = {0,          9,         10,         99,        100,
					 999,        1000,      65535,      65536,     1u << 31,
					 UINT32_MAX, 999999999, 1000000000, INT64_MAX, UINT64_MAX,
					 15,         16};
	const unsigned int n = sizeof(edges) / sizeof(edges[0]);
	uint64_t value = (uint64_t)random() << 42 ^ (uint64_t)random() << 21 ^ (uint64_t)random();

	return i < n ? edges[i] : value >> (unsigned int)random() % 64;
}

static unsigned int different(char *(*put)(char *at, uint64_t value), const char *format)
{
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < RANDOM; i++) {
		uint64_t value = sample(i);
		char expected[64], text[64 + DIGITS_ROOM];

		snprintf(expected, sizeof(expected), format, value);
		*put(text, value) = '\0';
		wrong += strcmp(text, expected) != 0;
	}
	return wrong;
}

static char *put_signed(char *at, uint64_t value)
{
	return digits_put_signed(at, (int64_t)value);
}

static char *put_nine(char *at, uint64_t value)
{
	return digits_put_nine(at, (uint32_t)(value % 1000000000));
}

static void test_nine(void)
{
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < RANDOM; i++) {
		uint64_t value = sample(i) % 1000000000;
		char expected[64], text[64];

		snprintf(expected, sizeof(expected), "%09" PRIu64, value);
		*put_nine(text, value) = '\0';
		wrong += strcmp(text, expected) != 0;
	}
	is_u64(wrong, 0, "nine digits are those of printf()");
}

int main(void)
{
	srandom(1);
	is_u64(different(digits_put_decimal, "%" PRIu64), 0, "decimals are those of printf()");
	is_u64(different(put_signed, "%" PRId64), 0, "signed decimals are those of printf()");
	is_u64(different(digits_put_hex, "0x%" PRIx64), 0, "hexadecimals are those of printf()");
	test_nine();
	return tap_done();
}
