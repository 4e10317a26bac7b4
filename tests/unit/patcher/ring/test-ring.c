// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "tests/unit/patcher/ring/ring-fixture.h"

static bool is_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

static void test_config(void)
{
	struct ring_config config = {DATA + 8, QUEUE, shapes, NR_IDS};
	uint64_t *memory = malloc(ring_stride(DATA));
	struct ring ring;

	if (!memory)
		abort();
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL, "a size that is no power of two");
	config.data_bytes = RING_MIN_DATA / 2;
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL, "data smaller than the slack");
	config.data_bytes = DATA;
	ok(ring_init(&ring, (char *)memory + 4, &config, NULL) == -EINVAL, "unaligned memory");
	config.queue_bytes = RING_MAX_RECORD - 8;
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL, "a queue smaller than a record");
	free(memory);
}

/* Sizes that make records end everywhere, many times around; after each pass nothing is left. */
static void test_wrap(void)
{
	static const struct ring_sample samples[] = {
		{0, SMALL, 0}, {1, 40, 0}, {2, BIG, 0}, {3, 136, 0},
		{4, 40, 0},    {4, 48, 1}, {4, 112, 9},
	};
	enum { NR_SAMPLES = sizeof(samples) / sizeof(samples[0]) };
	unsigned int seed = 1, wrong = 0, tails = 0;
	uint64_t written = 0, read = 0;
	struct fixture f;

	setup(&f);
	for (int round = 0; round < 3000; round++) {
		for (int n = rand_r(&seed) % 16; n > 0; n--) {
			struct ring_sample sample = samples[rand_r(&seed) % NR_SAMPLES];

			tails += f.writer.header->reserve % DATA + sample.size > DATA;
			written += ring_writer_put(&f.writer, sample, written, written + 1);
		}
		ring_consume(&f.ring, &f.clock);
		while (ring_first(&f.ring))
			wrong += pop(&f) != ++read;
		wrong += !is_zero(f.ring.data, DATA + RING_MAX_RECORD);
	}
	is_u64(wrong, 0, "records come out in order and unchanged, and leave zeroes");
	is_u64(read, written, "all of them");
	ok(tails > 20, "%u records ended in the tail", tails);
	is_u64(f.ring.counts.clamped + f.ring.counts.malformed + f.ring.counts.stalled, 0,
	       "no damage");
	teardown(&f);
}

static void test_full(void)
{
	struct fixture f;
	uint64_t written = 0;

	setup(&f);
	ok(ring_room(&f.ring) == RING_ROOM, "an empty ring has room");
	while (ring_writer_put(&f.writer, small, written, written + 1))
		written++;
	ok(ring_room(&f.ring) == RING_FULL, "a writer at the limit has none");
	for (int i = 0; i < 4; i++) {
		struct ring_record *record = ring_writer_reserve_unchecked(&f.writer, BIG);

		record->tsc = written;
		ring_writer_fill(record, BIG, ++written);
		ring_writer_commit(record, big);
	}
	ok(f.writer.header->reserve <= DATA, "four more that had passed the check fit");
	ring_consume(&f.ring, &f.clock);
	ok(ring_room(&f.ring) == RING_ROOM, "a pass makes room");
	for (uint64_t i = 1; i <= written; i++)
		if (pop(&f) != i)
			abort();
	is_u64(f.ring.counts.records, written, "nothing was overwritten");
	teardown(&f);
}

/* An NMI's record is complete before the one it interrupted. */
static void test_nested(void)
{
	struct ring_record *outer;
	struct fixture f;

	setup(&f);
	outer = ring_writer_reserve(&f.writer, SMALL);
	ring_writer_put(&f.writer, small, 100, 2);
	is_u64(ring_consume(&f.ring, &f.clock), 0, "an uncommitted record holds the watermark");
	is_u64(pop(&f), 0, "and what is behind it");
	ring_writer_fill(outer, SMALL, 1);
	outer->tsc = 101;
	is_u64(ring_consume(&f.ring, &f.clock), 0, "a record that lacks only its commit word, too");
	ring_writer_commit(outer, small);
	is_u64(ring_consume(&f.ring, &f.clock), f.clock.tsc, "complete: up to now");
	is_u64(pop(&f), 1, "the outer one first");
	is_u64(ring_first(&f.ring)->tsc, 101, "the inner one's stamp does not go back");
	is_u64(pop(&f), 2, "the inner one behind it");
	is_u64(f.ring.counts.clamped, 1, "which is counted");
	teardown(&f);
}

static void test_stalled(void)
{
	struct ring_record *torn;
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 100, 1);
	torn = ring_writer_reserve(&f.writer, SMALL);
	torn->tsc = 101;
	ring_writer_put(&f.writer, small, 102, 3);
	f.clock.now_ns = 5000;
	is_u64(ring_consume(&f.ring, &f.clock), 100, "the watermark is the last record");
	f.clock.now_ns += STALL_NS - 1;
	is_u64(ring_consume(&f.ring, &f.clock), 100, "within the time limit it waits");
	f.clock.now_ns += 1;
	is_u64(ring_consume(&f.ring, &f.clock), f.clock.tsc, "then it gives up");
	is_u64(f.ring.counts.stalled, 1, "counted");
	is_u64(f.ring.counts.skipped_bytes, 2 * SMALL, "up to the end of what was reserved");
	ok(is_zero(f.ring.data, DATA + RING_MAX_RECORD), "and zeroed");
	ring_writer_put(&f.writer, small, f.clock.tsc, 4);
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 1, "what was before it");
	is_u64(pop(&f), 4, "and what came after");
	teardown(&f);
}

/* Skipping around the end, where the last record lies in the tail. */
static void test_skip_wraps(void)
{
	struct ring_record *tail, *behind;
	struct fixture f;

	setup(&f);
	f.clock.stall_ns = 0;
	while (f.writer.header->reserve % DATA < DATA - BIG) {
		ring_writer_put(&f.writer, small, 1, 1);
		ring_consume(&f.ring, &f.clock);
		pop(&f);
	}
	ring_writer_reserve(&f.writer, SMALL);
	while (f.writer.header->reserve % DATA < DATA - SMALL)
		ring_writer_put(&f.writer, small, 1, 1);
	tail = ring_writer_reserve(&f.writer, BIG);
	memset(tail, 0xff, BIG);
	behind = ring_writer_reserve(&f.writer, SMALL);
	memset(behind, 0xff, SMALL);
	ok((uint8_t *)tail + BIG > f.ring.data + DATA && (uint8_t *)behind < (uint8_t *)tail,
	   "the damage crosses the end");
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.stalled, 1, "it is skipped");
	ok(is_zero(f.ring.data, DATA + RING_MAX_RECORD), "zeroed at both ends");
	ring_writer_put(&f.writer, small, f.clock.tsc, 7);
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 7, "and the ring goes on");
	teardown(&f);
}

/* A record of 136 bytes with this commit word and so many items. */
static void check_malformed(const char *what, uint32_t commit, uint32_t items)
{
	struct ring_record *record;
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	record = ring_writer_reserve(&f.writer, 136);
	record->items = items;
	record->commit = commit;
	ring_consume(&f.ring, &f.clock);
	ok(pop(&f) == 1 && pop(&f) == 0 && f.ring.counts.malformed == 1 &&
		   f.ring.counts.skipped_bytes == 136,
	   "%s is malformed, and skipped", what);
	ring_writer_put(&f.writer, small, 2, 3);
	ring_consume(&f.ring, &f.clock);
	ok(pop(&f) == 3, "%s does not hide the next record", what);
	teardown(&f);
}

static void test_malformed(void)
{
	check_malformed("a commit word without bit 31", 3, 0);
	check_malformed("an id that no shape has", ring_commit(NR_IDS), 0);
	check_malformed("the largest id", UINT32_MAX, 0);
	check_malformed("an id of which there are no records", ring_commit(5), 0);
	check_malformed("a record with an item where none can be", ring_commit(3), 1);
	check_malformed("a record with more items than its shape", ring_commit(4), 10);
	check_malformed("a record with the largest number of items", ring_commit(4), UINT32_MAX);
	check_malformed("a record larger than what is reserved", ring_commit(2), 0);
}

static void check_dead(const char *what, uint64_t reserve)
{
	struct fixture f;

	setup(&f);
	for (int i = 0; i < 10; i++)
		ring_writer_put(&f.writer, small, 1, 1);
	ring_consume(&f.ring, &f.clock);
	f.writer.header->reserve = reserve;
	ring_consume(&f.ring, &f.clock);
	ring_consume(&f.ring, &f.clock);
	ok(f.ring.dead && f.ring.counts.malformed == 1 && ring_room(&f.ring) == RING_DEAD,
	   "dead: %s", what);
	ok(!ring_writer_put(&f.writer, small, 2, 2), "and no writer gets through");
	teardown(&f);
}

static void test_positions(void)
{
	check_dead("the position went back", 9 * SMALL);
	check_dead("it is beyond the ring", 10 * SMALL + DATA + 8);
	check_dead("it is no multiple of 8", 11 * SMALL + 4);
	check_dead("it is as large as can be", UINT64_MAX - 7);
}

static void test_stamps(void)
{
	struct fixture f;

	setup(&f);
	f.clock = (struct ring_clock){.tsc = 1000, .margin = 100};
	ring_writer_put(&f.writer, small, 950, 1);
	ring_writer_put(&f.writer, small, 5000, 2);
	is_u64(ring_consume(&f.ring, &f.clock), 900, "the watermark keeps the margin");
	is_u64(pop(&f), 0, "a record within the margin waits");
	f.clock.tsc = 1020;
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 0, "as long as it is within");
	f.clock.tsc = 2000;
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 1, "and is then taken");
	is_u64(f.ring.counts.clamped, 0, "unchanged");
	is_u64(pop(&f), 0, "a stamp behind the clock is left alone");
	f.clock.tsc = 3000;
	ring_consume(&f.ring, &f.clock);
	is_u64(ring_first(&f.ring)->tsc, 2900, "if it still is, it gets the clock's");
	is_u64(pop(&f), 2, "and is taken");
	is_u64(f.ring.counts.clamped, 1, "counted");
	ring_raise_floor(&f.ring, 2950);
	ring_writer_put(&f.writer, small, 2920, 3);
	f.clock.tsc = 4000;
	ring_consume(&f.ring, &f.clock);
	is_u64(ring_first(&f.ring)->tsc, 2950, "nothing comes before the floor");
	teardown(&f);
}

static void test_doorbell(void)
{
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	ok(!ring_arm(&f.ring), "not armed while there is something to take");
	ok(!f.writer.header->doorbell && ring_room(&f.ring) == RING_ROOM, "nothing changed");
	ring_consume(&f.ring, &f.clock);
	ok(!ring_arm(&f.ring), "nor while the queue holds something");
	pop(&f);
	ok(ring_arm(&f.ring), "armed when idle");
	ok(f.writer.header->doorbell && !ring_writer_put(&f.writer, small, 2, 2) &&
		   ring_room(&f.ring) == RING_FULL,
	   "the very next record rings");
	ring_consume(&f.ring, &f.clock);
	ok(!f.writer.header->doorbell && ring_writer_put(&f.writer, small, 2, 2),
	   "a pass disarms it");
	teardown(&f);
}

static void test_drops(void)
{
	struct fixture f;

	setup(&f);
	f.writer.header->lost = 5;
	ring_consume(&f.ring, &f.clock);
	f.writer.header->lost = 7;
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.lost, 7, "lost are counted once");
	f.writer.header->lost = 6;
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.lost, 7, "and do not go back");
	is_u64(f.ring.counts.malformed, 1, "which is damage");
	teardown(&f);
}

int main(void)
{
	test_config();
	test_wrap();
	test_full();
	test_nested();
	test_stalled();
	test_skip_wraps();
	test_malformed();
	test_positions();
	test_stamps();
	test_doorbell();
	test_drops();
	return tap_done();
}
