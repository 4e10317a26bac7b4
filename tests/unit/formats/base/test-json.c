/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include "formats/base/json.h"
#include "tests/lib/tap.h"

static void test_make(void)
{
	json_t *most = json_from_count(UINT64_MAX), *address = json_from_address(0xabc);
	json_t *text = json_from_text("a\033\xff");

	ok(json_integer_value(most) == INT64_MAX, "a count is capped to INT64_MAX");
	is_str(json_string_value(address), "0xabc", "an address is a hexadecimal string");
	is_str(json_string_value(text), "a??", "a text is printable ASCII");
	json_decref(most);
	json_decref(address);
	json_decref(text);
}

static void test_read(void)
{
	json_t *object = json_loads("{\"text\":\"a\\tbcd\",\"count\":7,\"less\":-7,\"flag\":true,"
				    "\"address\":\"0xFFFFffffFFFFffff\"}",
				    0, NULL);
	uint64_t count = 1, address = 1;
	int64_t less = 1;
	bool flag = false;
	char text[4];

	ok(!json_read_text(object, "text", text, sizeof(text)), "a text is read");
	is_str(text, "a?b", "a text that is read is cleaned and cut");
	ok(!json_read_count(object, "count", &count) && count == 7, "a count is read");
	ok(!json_read_signed(object, "less", &less) && less == -7, "a negative number is read");
	ok(!json_read_bool(object, "flag", &flag) && flag, "a boolean is read");
	ok(!json_read_address(object, "address", &address) && address == UINT64_MAX,
	   "an address is read in either case");
	ok(!json_read_count(object, "none", &count) && count == 7,
	   "an absent member leaves the value alone");
	ok(json_read_count(object, "less", &count) == -EINVAL, "a negative count is refused");
	ok(json_read_count(object, "text", &count) == -EINVAL, "a string is no count");
	ok(json_read_text(object, "count", text, sizeof(text)) == -EINVAL, "a number is no text");
	ok(json_read_bool(object, "count", &flag) == -EINVAL, "a number is no boolean");
	ok(json_read_address(object, "text", &address) == -EINVAL, "an address needs 0x");
	json_decref(object);
}

int main(void)
{
	test_make();
	test_read();
	return tap_done();
}
