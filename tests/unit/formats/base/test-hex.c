// SPDX-License-Identifier: GPL-2.0-or-later
/* Bytes as hexadecimal digits, and back. */
#include <string.h>
#include "formats/base/hex.h"
#include "tests/lib/tap.h"

static void test_all_bytes(void)
{
	uint8_t bytes[256], back[256];
	char text[513];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	is_u64(hex_encode(text, bytes, sizeof(bytes)), 512, "two digits a byte");
	is_u64(strlen(text), 512, "and a NUL");
	ok(!memcmp(text, "000102", 6) && !memcmp(text + 506, "fdfeff", 6), "lower case");
	ok(hex_decode(back, text, sizeof(back)) && !memcmp(bytes, back, sizeof(back)), "and back");
}

static void test_digits(void)
{
	unsigned int accepted = 0;
	uint8_t byte;

	for (int c = -128; c < 128; c++) {
		const char first[] = {(char)c, '0'}, second[] = {'0', (char)c};
		bool is_digit = c > 0 && strchr("0123456789abcdefABCDEF", c);

		if (hex_decode(&byte, first, 1) != is_digit ||
		    hex_decode(&byte, second, 1) != is_digit)
			ok(false, "character %d", c);
		accepted += is_digit;
	}
	is_u64(accepted, 22, "digits in either case, and nothing else");
	ok(hex_decode(&byte, "aF", 1) && byte == 0xaf, "mixed case");
	ok(hex_decode(&byte, "", 0), "no byte of nothing");
}

int main(void)
{
	test_all_bytes();
	test_digits();
	return tap_done();
}
