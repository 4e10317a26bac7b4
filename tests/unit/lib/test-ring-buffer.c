// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "tests/lib/event-format.h"
#include "tests/lib/ring-buffer.h"
#include "tests/lib/tap.h"

static const char header_text[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

static const char kfree_text[] =
	"name: kfree\nID: 480\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\n"
	"\tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"ptr=%p\", REC->ptr\n";

static struct event_format header;
static struct error err;

static void test_format(void)
{
	unsigned char record[24] = {[16] = 0x88, [23] = 0xff};
	struct event_format format;
	uint64_t value;

	is_u64(event_format_parse(kfree_text, sizeof(kfree_text) - 1, &format, &err), 0, "parse");
	is_str(format.name, "kfree", "event name");
	is_u64(format.id, 480, "event id");
	is_u64(format.field_count, 3, "fields");
	ok(event_field_read(event_format_field(&format, "ptr"), record, sizeof(record), &value),
	   "pointer to read");
	is_u64(value, 0xff00000000000088, "pointer's value");
	ok(!event_field_read(event_format_field(&format, "ptr"), record, 23, &value),
	   "field beyond the record");
	ok(event_format_field(&format, "name") && !event_format_field(&format, "nam"),
	   "__data_loc name found, half a name not");
	is_u64(event_format_parse("\tfield:int x;", 13, &format, &err), (uint64_t)-EINVAL,
	       "field without offset");
	is_u64(event_format_parse("", 0, &format, &err), (uint64_t)-EINVAL, "empty format");
}

/* Page of the given words after a header with time 1000. */
static int make_page(struct ring_page *page, uint32_t *storage, const uint32_t *words, size_t count,
		     uint64_t commit)
{
	uint64_t time = 1000;

	memcpy(storage, &time, sizeof(time));
	memcpy(storage + 2, &commit, sizeof(commit));
	memcpy(storage + 4, words, count * sizeof(*words));
	return ring_page_init(page, &header, storage, 16 + count * sizeof(*words), &err);
}

static void test_events(void)
{
	const uint32_t words[] = {
		2 | 5u << 5,
		0x11,
		0x12, /* two words of data, 5 later */
		30 | 3u << 5,
		2, /* time extend by 2 << 27, plus 3 */
		29 | 1u << 5,
		8,
		0xdead, /* discarded: 8 bytes after the first word */
		0 | 7u << 5,
		12,
		0x21,
		0x22, /* length 12 with its own word */
		31 | 9u << 5,
		4, /* absolute: 4 << 27, plus 9 */
		1,
		0x31, /* one word, no delta */
		29,
		0, /* the rest is empty */
		1,
		0x41,
	};
	uint32_t storage[4 + sizeof(words) / 4];
	struct ring_event event;
	struct ring_page page;
	uint32_t word;

	is_u64(make_page(&page, storage, words, sizeof(words) / 4, sizeof(words) | 1u << 31), 0,
	       "page with events");
	ok(page.lost_events, "flag of lost events");
	is_u64(ring_page_next(&page, &event, &err), 1, "first");
	is_u64(event.size, 8, "its size");
	is_u64(event.time, 1005, "its time");
	is_u64(ring_page_next(&page, &event, &err), 1, "second, after extend and discarded");
	is_u64(event.size, 8, "its size");
	is_u64(event.time, 1005 + (2ull << 27) + 3 + 7, "its time");
	is_u64(ring_page_next(&page, &event, &err), 1, "third, after time stamp");
	memcpy(&word, event.record, sizeof(word));
	is_u64(word, 0x31, "its data");
	is_u64(event.time, (4ull << 27) + 9, "its time");
	is_u64(ring_page_next(&page, &event, &err), 0, "end at the padding");
}

static void test_hostile(void)
{
	const uint32_t beyond[] = {3, 0, 0}, huge[] = {0, 0xfffffffc}, cut[] = {0}, none[] = {0, 0},
		       commit[] = {1, 2};
	uint32_t storage[8];
	struct ring_event event;
	struct ring_page page;

	make_page(&page, storage, beyond, 3, sizeof(beyond));
	is_u64(ring_page_next(&page, &event, &err), (uint64_t)-EINVAL, "data beyond the page");
	make_page(&page, storage, huge, 2, sizeof(huge));
	is_u64(ring_page_next(&page, &event, &err), (uint64_t)-EINVAL, "length near 4 GiB");
	make_page(&page, storage, cut, 1, sizeof(cut));
	is_u64(ring_page_next(&page, &event, &err), (uint64_t)-EINVAL, "no room for the length");
	make_page(&page, storage, none, 2, sizeof(none));
	is_u64(ring_page_next(&page, &event, &err), (uint64_t)-EINVAL, "length below its own");
	is_u64(make_page(&page, storage, commit, 2, sizeof(commit) + 4), (uint64_t)-EINVAL,
	       "more used than there is");
	is_u64(ring_page_init(&page, &header, storage, 12, &err), (uint64_t)-EINVAL, "short page");
}

int main(void)
{
	is_u64(event_format_parse(header_text, sizeof(header_text) - 1, &header, &err), 0,
	       "header_page");
	test_format();
	test_events();
	test_hostile();
	return tap_done();
}
