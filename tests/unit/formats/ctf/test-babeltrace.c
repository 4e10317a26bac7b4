/* SPDX-License-Identifier: GPL-2.0-or-later */
/* babeltrace2 as judge of our CTF traces: it reads the same events, and refuses what we refuse. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/ctf/ctf.h"
#include "formats/trace/reader.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static void test_same_events(void)
{
	enum { N = 3000 };
	struct kmem_record *records = calloc(N, sizeof(*records));
	struct kmem_record *theirs = calloc(N + 1, sizeof(*theirs));

	for (unsigned int round = 0; round < 4; round++) {
		struct scratch dir = scratch_make();
		struct ctf_made made;

		random_records(round + 30, round / 2, records, N);
		ctf_make(&made, round % 2, records, N, 500);
		ctf_made_put(&made, dir.path);
		is_u64((uint64_t)babeltrace_records(dir.path, theirs, N + 1), N,
		       "babeltrace2 reads all records");
		ok(!memcmp(records, theirs, N * sizeof(*records)),
		   "babeltrace2 rebuilds each record, %s-endian%s", round % 2 ? "big" : "little",
		   round / 2 ? ", illegal ones too" : "");
		ctf_made_free(&made);
		scratch_remove(&dir);
	}
	free(records);
	free(theirs);
}

/* What users of viewers see: names for numbers, and the wall clock. */
static void test_text(void)
{
	static const char *const parts[] = {
		"[1700000000.123456889] ", /* 100 ns after the start, which was at ...789 */
		" kmalloc: { cpu_id = 0, ",
		" }, { call_site = ( \"0xffffffff81000010\"",
		", ptr = 0x888000001000, bytes_req = 60, bytes_alloc = 64, ",
		" cache = ( \"cache-3\" : container = 3 ), ",
		" gfp_flags = ( \"GFP_KERNEL\" : container = ",
	};
	struct kmem_record record =
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000001000, 0xffffffff81000010, 60, 64, 1100);
	struct scratch dir = scratch_make();
	struct ctf_made made;
	char *text;

	record.cache = 3;
	record.gfp_flags = 0xcc0;
	ctf_make(&made, false, &record, 1, 0);
	ctf_made_put(&made, dir.path);
	is_u64((uint64_t)babeltrace_run("--clock-seconds", dir.path, &text), 0,
	       "babeltrace2 reads the trace");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!ok(strstr(text, parts[i]), "babeltrace2 prints '%s'", parts[i]))
			tap_diag("%s", text);
	free(text);
	ctf_made_free(&made);
	scratch_remove(&dir);
}

/* Other readers know how much a page event is about by its order, whatever form it has. */
static void test_orders(void)
{
	static const struct {
		unsigned int order;
		uint64_t bytes;
	} sizes[] = {{0, 4096},     {7, 4096 << 7}, {8, 4096 << 8}, {10, 4096 << 10},
		     {2, 3 * 4096}, {0, 1},         {0, 0},         {52, UINT64_MAX}};
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	struct kmem_record records[2 * N];
	struct scratch dir = scratch_make();
	struct ctf_made made;
	char *text, *at;

	for (unsigned int i = 0; i < N; i++) {
		records[2 * i] = make_alloc(KMEM_TYPE_PAGES, 0xffff888000001000, 0xffffffff81000010,
					    sizes[i].bytes, sizes[i].bytes, 1100 + i);
		records[2 * i + 1] = records[2 * i];
		records[2 * i + 1].event_id = KMEM_EVENT_FREE;
		records[2 * i + 1].gfp_flags = 0;
		records[2 * i + 1].node = 0;
	}
	ctf_make(&made, false, records, 2 * N, 0);
	ctf_made_put(&made, dir.path);
	is_u64((uint64_t)babeltrace_run("", dir.path, &text), 0, "babeltrace2 reads the trace");
	at = text;
	for (unsigned int i = 0; i < 2 * N; i++) {
		unsigned int order = 99;

		at = strstr(at, i % 2 ? " mm_page_free: " : " mm_page_alloc: ");
		if (at && (at = strstr(at, " order = ")))
			sscanf(at, " order = %u", &order);
		ok(order == sizes[i / 2].order,
		   "babeltrace2 prints a page %s of %" PRIu64 " bytes with order %u",
		   i % 2 ? "free" : "allocation", sizes[i / 2].bytes, order);
		at = at ? at : text;
	}
	free(text);
	ctf_made_free(&made);
	scratch_remove(&dir);
}

/* --- shapes ---------------------------------------------------------------------------------- */

enum { MAGIC = 0, UUID = 4, STREAM_ID = 20, BEGIN = 24, END = 32, CONTENT = 40, SIZE = 48 };

/* Where packet n begins. */
static size_t packet_at(const struct ctf_made *made, unsigned int n)
{
	struct ctf_packet packet;
	size_t at = 0;

	while (n--) {
		if (!ctf_packet_get(made->stream + at, &made->identity, &packet))
			abort();
		at += packet.size;
	}
	return at;
}

/* Add to a 64-bit number in the header of the second packet. */
static void add_to(struct ctf_made *made, unsigned int offset, int64_t n)
{
	uint8_t *place = made->stream + packet_at(made, 1) + offset;
	uint64_t value;

	memcpy(&value, place, sizeof(value));
	value = htole64(le64toh(value) + (uint64_t)n);
	memcpy(place, &value, sizeof(value));
}

static void flip(struct ctf_made *made, size_t offset)
{
	made->stream[packet_at(made, 1) + offset] ^= 0x55;
}

static void keep(struct ctf_made *made)
{
	(void)made;
}

static void bad_magic(struct ctf_made *made)
{
	flip(made, MAGIC);
}

static void other_uuid(struct ctf_made *made)
{
	flip(made, UUID + 15);
}

static void other_metadata(struct ctf_made *made)
{
	char *uuid = strstr(made->metadata, "uuid = \"");

	uuid[strlen("uuid = \"")] ^= 1;
}

static void unknown_stream(struct ctf_made *made)
{
	flip(made, STREAM_ID);
}

static void content_beyond_packet(struct ctf_made *made)
{
	add_to(made, CONTENT, 64);
}

static void content_within_event(struct ctf_made *made)
{
	add_to(made, CONTENT, -16);
}

static void content_within_header(struct ctf_made *made)
{
	add_to(made, CONTENT, -(int64_t)made->size * 8 / 2);
}

static void size_zero(struct ctf_made *made)
{
	struct ctf_packet packet;

	if (!ctf_packet_get(made->stream + packet_at(made, 1), &made->identity, &packet))
		abort();
	add_to(made, SIZE, -(int64_t)packet.size * 8);
}

static void size_in_bits(struct ctf_made *made)
{
	add_to(made, SIZE, 1);
}

static void size_beyond_file(struct ctf_made *made)
{
	add_to(made, SIZE, 1 << 20);
}

static void begin_after_end(struct ctf_made *made)
{
	add_to(made, BEGIN, INT64_C(1) << 40);
}

static void begin_too_early(struct ctf_made *made)
{
	add_to(made, BEGIN, -150);
}

static void end_before_event(struct ctf_made *made)
{
	add_to(made, END, -50);
}

static void unknown_event(struct ctf_made *made)
{
	uint8_t *id = made->stream + packet_at(made, 1) + CTF_PACKET_HEADER_SIZE;

	*id = (*id & 0xe0) | 30;
}

static void cut_in_event(struct ctf_made *made)
{
	made->size -= 20;
}

static void cut_in_header(struct ctf_made *made)
{
	made->size = packet_at(made, 1) + 40;
}

static void cut_between_packets(struct ctf_made *made)
{
	made->size = packet_at(made, 1);
}

static void nothing_at_all(struct ctf_made *made)
{
	made->size = 0;
}

static void without_first_packet(struct ctf_made *made)
{
	size_t at = packet_at(made, 1);

	memmove(made->stream, made->stream + at, made->size - at);
	made->size -= at;
}

/* Bytes of padding behind the content of the last packet. */
static void padding(struct ctf_made *made)
{
	made->stream = realloc(made->stream, made->size + 40);
	if (!made->stream)
		abort();
	memset(made->stream + made->size, 0xff, 40);
	made->size += 40;
	add_to(made, SIZE, 40 * 8);
}

static void no_metadata(struct ctf_made *made)
{
	made->metadata[0] = '\0';
}

static void cut_metadata(struct ctf_made *made)
{
	made->metadata[strlen(made->metadata) / 2] = '\0';
}

static bool we_accept(const char *path)
{
	struct trace_reader *reader = NULL;
	struct trace_stream_info info;
	struct record_event event;

	if (trace_reader_open(path, &reader, NULL))
		return false;
	while (read_record(reader, &event, NULL) > 0)
		;
	trace_reader_stream_info(reader, 0, &info);
	trace_reader_close(reader);
	return info.fault == RECORD_FAULT_NONE && !info.nr_damages;
}

static void make_shape(struct ctf_made *made)
{
	struct kmem_record records[4];

	for (int i = 0; i < 4; i++)
		records[i] = make_free(KMEM_TYPE_KMALLOC, 0xffff888000001000, 0xffffffff81000010,
				       (i + 1) * 100);
	ctf_make(made, false, records, 4, 2);
}

static void test_shapes(void)
{
	static const struct {
		const char *what;
		void (*damage)(struct ctf_made *made);
		bool ours, theirs; /* accepted */
	} rows[] = {
		{"an unchanged trace", keep, true, true},
		{"a stream cut between packets", cut_between_packets, true, true},
		{"an empty stream", nothing_at_all, true, true},
		{"another magic number", bad_magic, false, false},
		{"an unknown stream id", unknown_stream, false, false},
		{"content that goes beyond its packet", content_beyond_packet, false, false},
		{"content that ends within an event", content_within_event, false, false},
		{"content that ends within the header", content_within_header, false, false},
		{"a packet of size 0", size_zero, false, false},
		{"a packet size of no whole bytes", size_in_bits, false, false},
		{"a packet that goes beyond the file", size_beyond_file, false, false},
		{"a packet that begins after its end", begin_after_end, false, false},
		{"a packet that begins before the end of the last", begin_too_early, false, false},
		{"a packet that ends before its last event", end_before_event, false, false},
		{"an unknown event id", unknown_event, false, false},
		{"a stream cut in an event", cut_in_event, false, false},
		{"a stream cut in a packet's header", cut_in_header, false, false},
		{"an empty metadata file", no_metadata, false, false},
		{"half of the metadata file", cut_metadata, false, false},
		/* the specification says that these are the same; babeltrace2 does not check */
		{"another uuid in a packet", other_uuid, false, true},
		{"another uuid in the metadata", other_metadata, false, true},
		/* babeltrace2 knows nothing of the checksum, and numbers are context to it */
		{"a changed packet size, with padding", padding, false, true},
		{"a stream without its first packet", without_first_packet, false, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scratch dir = scratch_make();
		struct ctf_made made;
		bool ours, theirs;

		make_shape(&made);
		rows[i].damage(&made);
		ctf_made_put(&made, dir.path);
		ours = we_accept(dir.path);
		theirs = babeltrace_run("", dir.path, NULL) == 0;
		ok(ours == rows[i].ours && theirs == rows[i].theirs,
		   "%s: sonde %ss it, babeltrace2 %s it", rows[i].what, ours ? "accept" : "refuse",
		   theirs ? "accepts" : "refuses");
		ctf_made_free(&made);
		scratch_remove(&dir);
	}
}

int main(void)
{
	if (!ok(!system("babeltrace2 --version >/dev/null"),
		"babeltrace2 is installed (tests/setup)"))
		return tap_done();
	test_same_events();
	test_text();
	test_orders();
	test_shapes();
	return tap_done();
}
