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
	struct ring_config config = {DATA + 8, QUEUE, shapes, NR_PROBES};
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
	static const struct ring_commit kinds[] = {
		{RING_ENTRY, 0, SMALL}, {RING_RETURN, 0, 40}, {RING_RETURN, 1, 40},
		{RING_ENTRY, 2, BIG},   {RING_ENTRY, 3, 136}, {RING_ENTRY, 4, 40},
		{RING_ENTRY, 4, 48},    {RING_ENTRY, 4, 112},
	};
	unsigned int seed = 1, wrong = 0, tails = 0;
	uint64_t written = 0, read = 0;
	struct fixture f;

	setup(&f);
	for (int round = 0; round < 3000; round++) {
		for (int n = rand_r(&seed) % 16; n > 0; n--) {
			struct ring_commit commit = kinds[rand_r(&seed) % 8];

			tails += f.writer.header->reserve % DATA + commit.size > DATA;
			written += ring_writer_put(&f.writer, commit, written, written + 1);
		}
		ring_consume(&f.ring, &f.clock);
		while (ring_queue_first(&f.ring.queue))
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
	outer->unused = 0xdead;
	ring_writer_commit(outer, small);
	is_u64(ring_consume(&f.ring, &f.clock), f.clock.tsc, "complete: up to now");
	is_u64(ring_queue_first(&f.ring.queue)->unused, 0, "what no field is reaches nobody");
	is_u64(pop(&f), 1, "the outer one first");
	is_u64(ring_queue_first(&f.ring.queue)->tsc, 101, "the inner one's stamp does not go back");
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

static void check_malformed(const char *what, uint32_t word)
{
	struct ring_record *record;
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	record = ring_writer_reserve(&f.writer, 136);
	record->commit = word;
	ring_consume(&f.ring, &f.clock);
	ok(pop(&f) == 1 && pop(&f) == 0 && f.ring.counts.malformed == 1 &&
		   f.ring.counts.skipped_bytes == 136,
	   "malformed: %s", what);
	ring_writer_put(&f.writer, small, 2, 3);
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 3, "the next record is taken");
	teardown(&f);
}

static void check_size(const char *what, uint16_t probe, enum ring_record_kind kind, uint32_t size)
{
	check_malformed(what, ring_commit_encode((struct ring_commit){kind, probe, size}));
}

static void test_malformed(void)
{
	check_malformed("bit 31 is not set", ring_commit_encode(small) & INT32_MAX);
	check_malformed("no such kind",
			ring_commit_encode((struct ring_commit){RING_KINDS, 0, SMALL}));
	check_malformed("no such probe",
			ring_commit_encode((struct ring_commit){RING_ENTRY, NR_PROBES, SMALL}));
	check_malformed("a kind the probe does not write",
			ring_commit_encode((struct ring_commit){RING_RETURN, 2, SMALL}));
	check_size("less than the probe's size", 0, RING_ENTRY, SMALL - 8);
	check_size("more than the probe's size", 0, RING_ENTRY, SMALL + 8);
	check_size("less than a record without items", 4, RING_ENTRY, 32);
	check_size("more items than the probe has", 4, RING_ENTRY, 40 + 10 * 8);
	check_size("items in a record of a kind that has none", 4, RING_RETURN, 24);
	check_size("no size at all", 4, RING_ENTRY, 0);
	check_malformed("larger than what is reserved", ring_commit_encode(big));
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
	is_u64(ring_queue_first(&f.ring.queue)->tsc, 2900, "if it still is, it gets the clock's");
	is_u64(pop(&f), 2, "and is taken");
	is_u64(f.ring.counts.clamped, 1, "counted");
	ring_raise_floor(&f.ring, 2950);
	ring_writer_put(&f.writer, small, 2920, 3);
	f.clock.tsc = 4000;
	ring_consume(&f.ring, &f.clock);
	is_u64(ring_queue_first(&f.ring.queue)->tsc, 2950, "nothing comes before the floor");
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
	f.writer.header->drops = 5;
	ring_consume(&f.ring, &f.clock);
	f.writer.header->drops = 7;
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.drops, 7, "drops are counted once");
	f.writer.header->drops = 6;
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.drops, 7, "and do not go back");
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
