/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packing of bits, and records through a CTF stream and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/bit-cursor.h"
#include "formats/ctf/ctf.h"
#include "formats/trace/reader.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

/* --- bits ------------------------------------------------------------------------------------ */

static void test_bits_layout(void)
{
	uint8_t little[3] = {0xff, 0xff, 0xff}, big[3] = {0xff, 0xff, 0xff};
	struct bit_cursor l = {.bytes = little, .end = 24};
	struct bit_cursor b = {.bytes = big, .end = 24, .big_endian = true};

	/* 5 bits of 0x11 and 13 bits of 0x1234 */
	bit_put(&l, 0x11, 5);
	bit_put(&l, 0x1234, 13);
	bit_put(&b, 0x11, 5);
	bit_put(&b, 0x1234, 13);
	ok(little[0] == (0x11 | 4 << 5) && little[1] == 0x46 && little[2] == 0x02,
	   "in little-endian data low bits come first: %02x %02x %02x", little[0], little[1],
	   little[2]);
	ok(big[0] == (0x11 << 3 | 4) && big[1] == 0x8d && big[2] == 0x00,
	   "in big-endian data high bits come first: %02x %02x %02x", big[0], big[1], big[2]);
	bit_put(&l, 0, 7);
	ok(l.failed && l.pos == 18, "no bit is written past the end");
	l.pos = 20;
	l.failed = false;
	ok(bit_get(&l, 5) == 0 && l.failed, "no bit is read past the end");
}

static void test_bits_round_trip(void)
{
	unsigned int seed = 1, wrong = 0;

	for (int round = 0; round < 20000; round++) {
		uint8_t bytes[32] = {0};
		unsigned int skip = (unsigned int)rand_r(&seed) % 64;
		unsigned int bits = 1 + (unsigned int)rand_r(&seed) % 64;
		uint64_t value = (uint64_t)rand_r(&seed) << 40 ^ (uint64_t)rand_r(&seed) << 20 ^
				 (uint64_t)rand_r(&seed);
		uint64_t want = bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
		struct bit_cursor c = {
			.bytes = bytes, .end = skip + bits, .big_endian = round % 2, .pos = skip};

		bit_put(&c, value, bits);
		c.pos = skip;
		wrong += bit_get(&c, bits) != want || c.failed;
		c.pos = skip;
		wrong += bit_fits_signed(value, bits) !=
			 ((uint64_t)bit_get_signed(&c, bits) == value);
		wrong += bit_fits(value, bits) != (want == value);
	}
	is_u64(wrong, 0,
	       "every width at every bit comes back, in both orders, with sign, and with what "
	       "fits");
}

/* --- whole streams --------------------------------------------------------------------------- */

/* A decoder of one stream, and what it reads. */
struct opened {
	struct trace_memory_file memory[2];
	struct trace_files *files;
	struct trace_decoder *decoder;
	struct record_stream *stream;
};

static int ignore_cache(struct record_stream *stream, const struct sidecar_cache *cache)
{
	(void)stream;
	(void)cache;
	return 0;
}

static struct record_stream *open_stream(struct opened *o, const struct ctf_made *made, size_t size)
{
	struct decoder_input input = {.add_cache = ignore_cache};

	o->memory[0] =
		(struct trace_memory_file){"metadata", made->metadata, strlen(made->metadata)};
	o->memory[1] = (struct trace_memory_file){"cpu0", made->stream, size};
	if (trace_files_open_memory(o->memory, 2, &o->files, NULL))
		abort();
	input.files = o->files;
	if (ctf_decoder.open(&input, &o->decoder, NULL) != 1 ||
	    ctf_decoder.add_stream(o->decoder, 0, 0, &o->stream, NULL))
		abort();
	return o->stream;
}

static void close_stream(struct opened *o)
{
	record_stream_destroy(o->stream);
	ctf_decoder.destroy(o->decoder);
	trace_files_close(o->files);
}

/* How many of the n records come back as they were, up to the first that does not. */
static size_t count_same(const struct ctf_made *made, const struct kmem_record *records, size_t n)
{
	struct opened opened;
	struct record_stream *stream = open_stream(&opened, made, made->size);
	struct record_event event;
	size_t i = 0;

	while (i < n && stream_record(stream, &event) == 1 &&
	       !memcmp(&event.record, &records[i], sizeof(records[i])))
		i++;
	if (i == n && (stream_record(stream, &event) || stream->fault))
		i = n + 1;
	close_stream(&opened);
	return i;
}

static void test_property(void)
{
	enum { N = 60000 };
	struct kmem_record *records = calloc(N, sizeof(*records));

	for (unsigned int round = 0; round < 4; round++) {
		bool big_endian = round % 2, hostile = round / 2;
		struct ctf_made made;
		size_t same;

		random_records(round + 7, hostile, records, N);
		ctf_make(&made, big_endian, records, N, round == 3 ? 3 : 0);
		same = count_same(&made, records, N);
		ok(same == N, "random records%s, %s-endian, all come back",
		   hostile ? ", illegal ones too" : "", big_endian ? "big" : "little");
		if (same < N)
			tap_diag("record %zu: event %u type %u", same, records[same].event_id,
				 records[same].type_id);
		ctf_made_free(&made);
	}
	free(records);
}

/* More call sites and flags than there are ids. */
static void test_many_ids(void)
{
	enum { N = 20000 };
	struct kmem_record *records = calloc(N, sizeof(*records));
	struct ctf_made made;

	for (unsigned int i = 0; i < N; i++) {
		unsigned int j = i % (N / 2);

		records[i] = make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000000 + i,
					0xffffffff81000000 + j, 8, 8, i);
		records[i].gfp_flags = j;
	}
	ctf_make(&made, false, records, N, 0);
	is_u64(count_same(&made, records, N), N,
	       "records come back with more call sites and flags than there are ids");
	ctf_made_free(&made);
	free(records);
}

static void test_sizes(void)
{
	static const struct {
		struct kmem_record record;
		size_t size;
		const char *what;
	} rows[] = {
		{{1, 0, 3, -1, 9, 0xffff888000001000, 60, 64, 0xcc0, 0},
		 17,
		 "an allocation by kmalloc()"},
		{{1, 1, 3, -1, 9, 0xffff888000001000, 60, 64, 0xcc0, 0},
		 17,
		 "an allocation from a cache"},
		{{1, 2, 0, 0, 9, 0xffff888000001000, 4096, 4096, 0xcc0, 0},
		 14,
		 "an allocation of pages on node 0"},
		{{1, 2, 0, -1, 9, 0xffff888000001000, 8192, 8192, 0, 0},
		 13,
		 "an allocation of pages on any node"},
		{{1, 0, 3, 1, 9, 0xffff888000001000, 60, 64, 0xcc0, 0},
		 18,
		 "an allocation by kmalloc() on node 1"},
		{{2, 0, 0, 0, 9, 0xffff888000001000, 0, 0, 0, 0}, 12, "a free by kfree()"},
		{{2, 1, 3, 0, 9, 0xffff888000001000, 0, 0, 0, 0}, 13, "a free to a cache"},
		{{2, 2, 0, 0, 9, 0xffff888000001000, 4096, 4096, 0, 0}, 12, "a free of a page"},
		{{1, 0, 3, -1, 9, 0xff11000000001000, 60, 64, 0xcc0, 0},
		 19,
		 "an allocation by kmalloc() with 5-level paging"},
		{{2, 0, 0, 0, 9, 0xff11000000001000, 0, 0, 0, 0},
		 13,
		 "a free by kfree() with 5-level paging"},
		{{1, 0, 0, -1, 9, 0xffff888000001000, 9000, 16384, 0xcc0, 0},
		 50,
		 "an allocation by kmalloc() of more than a cache holds"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kmem_record both[2] = {rows[i].record, rows[i].record};
		struct record_stream *stream;
		struct record_event event;
		struct opened opened;
		struct ctf_made made;

		ctf_make(&made, false, both, 2, 0);
		stream = open_stream(&opened, &made, made.size);
		stream_record(stream, &event);
		stream_record(stream, &event);
		ok(stream->offset - event.offset == rows[i].size, "%s takes %zu bytes",
		   rows[i].what, rows[i].size);
		close_stream(&opened);
		ctf_made_free(&made);
	}
}

/* --- cut and damaged ones -------------------------------------------------------------------- */

/* Where packet n begins; where the stream ends, if it has no more than n. */
static size_t packet_at(const struct ctf_made *made, size_t n)
{
	size_t offset = 0;

	while (n-- && offset < made->size) {
		struct ctf_packet packet;

		if (!ctf_packet_get(made->stream + offset, &made->identity, &packet))
			abort();
		offset += packet.size;
	}
	return offset;
}

static bool reads_prefix(const struct ctf_made *made, size_t size, size_t want, bool whole)
{
	struct opened opened;
	struct record_stream *stream = open_stream(&opened, made, size);
	struct record_event event;
	bool right;

	while (stream_record(stream, &event) == 1)
		;
	right = stream->index == want &&
		stream->fault == (whole ? RECORD_FAULT_NONE : RECORD_FAULT_TRUNCATED);
	close_stream(&opened);
	return right;
}

static void test_truncation(void)
{
	enum { N = 700, PER_PACKET = 300 };
	struct kmem_record *records = calloc(N, sizeof(*records));
	size_t wrong = 0, packets = 0;
	struct ctf_made made;

	random_records(3, true, records, N);
	ctf_make(&made, false, records, N, PER_PACKET);
	for (size_t size = 0; size <= made.size; size++) {
		bool whole = size == made.size || size == packet_at(&made, packets + 1) || !size;
		size_t want;

		packets += size && size == packet_at(&made, packets + 1);
		want = packets * PER_PACKET;
		wrong += !reads_prefix(&made, size, want < N ? want : N, whole);
	}
	is_u64(packets, 3, "the stream has three packets");
	is_u64(wrong, 0,
	       "of a stream cut at any byte all whole packets are read, and the cut is noticed");
	ctf_made_free(&made);
	free(records);
}

/* Whether all but the second of three packets is read, and this one is listed as damaged. */
static bool loses_second(const struct ctf_made *made, size_t begin, size_t end)
{
	struct opened opened;
	struct record_stream *stream = open_stream(&opened, made, made->size);
	struct record_event event;
	bool right = true;
	uint64_t n = 0;

	for (; stream_record(stream, &event) == 1; n++)
		right = right && event.record.ptr == 0x1000 + (n < 2 ? n : n + 2);
	right = right && n == 4 && !stream->fault && stream->nr_damages == 1 &&
		stream->damages[0].offset == begin && stream->damages[0].size == end - begin &&
		stream->damages[0].packet == 1;
	close_stream(&opened);
	return right;
}

static void make_six(struct ctf_made *made, bool big_endian)
{
	struct kmem_record records[6];

	for (unsigned int i = 0; i < 6; i++)
		records[i] = make_free(KMEM_TYPE_CACHE, 0x1000 + i, 0xffffffff81000000 + i,
				       100 * (i + 1));
	for (unsigned int i = 0; i < 6; i++)
		records[i].cache = (uint16_t)(i + 1);
	ctf_make(made, big_endian, records, 6, 2);
}

static void test_every_bit(void)
{
	for (unsigned int round = 0; round < 2; round++) {
		struct ctf_made made;
		size_t begin, end, wrong = 0;

		make_six(&made, round);
		begin = packet_at(&made, 1);
		end = packet_at(&made, 2);
		for (size_t bit = begin * 8; bit < end * 8; bit++) {
			made.stream[bit / 8] ^= (uint8_t)(1u << bit % 8);
			wrong += !loses_second(&made, begin, end);
			made.stream[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		ok(!wrong, "any of the %zu flipped bits of a packet costs that packet only",
		   (end - begin) * 8);
		ctf_made_free(&made);
	}
}

static void test_missing_packet(void)
{
	struct record_stream *stream;
	struct record_event event;
	struct opened opened;
	struct ctf_made made;
	size_t begin, end;

	make_six(&made, false);
	begin = packet_at(&made, 1);
	end = packet_at(&made, 2);
	memmove(made.stream + begin, made.stream + end, made.size - end);
	made.size -= end - begin;
	stream = open_stream(&opened, &made, made.size);
	while (stream_record(stream, &event) == 1)
		;
	ok(stream->index == 4 && stream->nr_damages == 1 && stream->damages[0].packet == 1 &&
		   !stream->damages[0].size,
	   "a packet that is not there is noticed");
	close_stream(&opened);
	ctf_made_free(&made);
}

int main(void)
{
	test_bits_layout();
	test_bits_round_trip();
	test_sizes();
	test_property();
	test_many_ids();
	test_truncation();
	test_every_bit();
	test_missing_packet();
	return tap_done();
}
