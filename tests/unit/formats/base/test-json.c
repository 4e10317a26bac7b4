/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

static void test_checksum(void)
{
	static const size_t flags[] = {JSON_COMPACT, JSON_INDENT(1)};
	json_t *object = json_pack("{si}", "a", 1), *empty = json_object();
	char *none = json_dump_with_checksum(empty, 0);

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		char *text = json_dump_with_checksum(object, flags[i]);
		const size_t size = strlen(text);
		json_t *read = json_loads(text, 0, NULL);

		ok(json_object_get(read, "crc32c") && json_take_checksum(read, text, size) &&
			   json_equal(read, object),
		   "a checksum is written, read and taken away: %s", text);
		json_decref(read);
		read = json_pack("{si ss}", "a", 1, "crc32c", "0");
		ok(!json_take_checksum(read, text, size - 1), "another checksum is wrong");
		json_decref(read);
		free(text);
	}
	ok(json_take_checksum(object, "{\"a\": 1}", 8), "an object needs no checksum");
	json_object_set_new(object, JSON_CHECKSUM_MARK, json_true());
	ok(!json_take_checksum(object, "{\"a\": 1}", 8), "but a marked one does");
	ok(!none, "an empty object has no checksum");
	json_decref(object);
	json_decref(empty);
}

int main(void)
{
	test_make();
	test_read();
	test_checksum();
	return tap_done();
}
