/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "formats/kmemtrace/kmemtrace.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const struct kmem_record sample = {
	.event_id = KMEM_EVENT_ALLOC,
	.type_id = KMEM_TYPE_PAGES,
	.cache = 7,
	.node = -2,
	.call_site = 0xffffffff81234567,
	.ptr = 0xffff888001020304,
	.bytes_req = 0x1112131415161718,
	.bytes_alloc = 0x2122232425262728,
	.gfp_flags = 0x0000000000400dc0,
	.timestamp = -3,
};

/* By hand from struct kmemtrace_event of the 2008 patch. */
static const uint8_t golden[KMEMTRACE_RECORD_SIZE] = {
	0x01, 0x02, 0x38, 0x00, 0xfe, 0xff, 0xff, 0xff, 0x67, 0x45, 0x23, 0x81, 0xff, 0xff,
	0xff, 0xff, 0x04, 0x03, 0x02, 0x01, 0x80, 0x88, 0xff, 0xff, 0x18, 0x17, 0x16, 0x15,
	0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0xc0, 0x0d,
	0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
};

static void check_sample(const struct kmem_record *got, const char *what)
{
	struct kmem_record want = sample;

	want.cache = 0;
	ok(got->event_id == want.event_id && got->type_id == want.type_id, "%s: ids are decoded",
	   what);
	ok(got->node == want.node && got->timestamp == want.timestamp,
	   "%s: signed fields are decoded", what);
	ok(got->call_site == want.call_site && got->ptr == want.ptr, "%s: addresses are decoded",
	   what);
	ok(got->bytes_req == want.bytes_req && got->bytes_alloc == want.bytes_alloc &&
		   got->gfp_flags == want.gfp_flags,
	   "%s: sizes and flags are decoded", what);
	is_u64(got->cache, 0, "the record has no cache");
}

static void test_codec(void)
{
	uint8_t bytes[KMEMTRACE_RECORD_SIZE];
	struct kmem_record record;
	bool swap;

	kmemtrace_encode(&sample, bytes);
	ok(!memcmp(bytes, golden, sizeof(golden)), "a record is encoded as the ABI says");
	ok(kmemtrace_detect_order(bytes, &swap) && !swap, "a little-endian record is recognised");
	kmemtrace_decode(bytes, false, &record);
	check_sample(&record, "little-endian");
	kmemtrace_reverse(bytes);
	ok(kmemtrace_detect_order(bytes, &swap) && swap, "a big-endian record is recognised");
	kmemtrace_decode(bytes, true, &record);
	check_sample(&record, "big-endian");
}

static void test_order(void)
{
	static const struct {
		uint8_t header[KMEMTRACE_HEADER_SIZE];
		bool valid, swap;
		uint16_t size;
		const char *what;
	} rows[] = {
		{{1, 0, 64, 0}, true, false, 64, "a longer little-endian record is recognised"},
		{{1, 0, 0, 64}, true, true, 64, "a longer big-endian record is recognised"},
		{{1, 0, 0x38, 0x38},
		 true,
		 false,
		 0x3838,
		 "a size that is the same in both orders is taken as little-endian"},
		{{1, 0, 55, 0},
		 true,
		 true,
		 0x3700,
		 "a size too short in one order is of the other"},
		{{1, 0, 0, 1},
		 true,
		 false,
		 256,
		 "a size of 256 is little-endian: as big-endian it would be 1"},
		{{1, 0, 0, 0}, false, false, 0, "a size of zero is refused"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool swap = false;
		bool valid = kmemtrace_detect_order(rows[i].header, &swap);

		ok(valid == rows[i].valid && (!valid || swap == rows[i].swap), "%s", rows[i].what);
		is_u64(kmemtrace_size(rows[i].header, rows[i].swap), rows[i].size,
		       "the header gives the record's size");
	}
}

int main(void)
{
	test_codec();
	test_order();
	return tap_done();
}
