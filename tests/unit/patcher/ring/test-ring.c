/* SPDX-License-Identifier: GPL-2.0-or-later */
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
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL,
	   "a size that is no power of two is refused");
	config.data_bytes = RING_MIN_DATA / 2;
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL,
	   "data smaller than the slack is refused");
	config.data_bytes = DATA;
	ok(ring_init(&ring, (char *)memory + 4, &config, NULL) == -EINVAL,
	   "unaligned memory is refused");
	config.queue_bytes = RING_MAX_RECORD - 8;
	ok(ring_init(&ring, memory, &config, NULL) == -EINVAL,
	   "a queue smaller than a record is refused");
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
	is_u64(wrong, 0, "records are taken out in order and unchanged, and leave zeroes");
	is_u64(read, written, "all records that were written are taken out");
	ok(tails > 20, "%u records that ended in the tail are among them", tails);
	is_u64(f.ring.counts.clamped + f.ring.counts.malformed + f.ring.counts.stalled, 0,
	       "no record is taken for damage");
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
	ok(ring_room(&f.ring) == RING_FULL, "a ring at its limit is full");
	for (int i = 0; i < 4; i++) {
		struct ring_record *record = ring_writer_reserve_unchecked(&f.writer, BIG);

		record->tsc = written;
		ring_writer_fill(record, BIG, ++written);
		ring_writer_commit(record, big);
	}
	ok(f.writer.header->reserve <= DATA, "four nested records fit behind the limit");
	ring_consume(&f.ring, &f.clock);
	ok(ring_room(&f.ring) == RING_ROOM, "a pass makes room");
	for (uint64_t i = 1; i <= written; i++)
		if (pop(&f) != i)
			abort();
	is_u64(f.ring.counts.records, written, "no record was overwritten");
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
	is_u64(pop(&f), 0, "an uncommitted record holds the records behind it");
	ring_writer_fill(outer, SMALL, 1);
	outer->tsc = 101;
	is_u64(ring_consume(&f.ring, &f.clock), 0,
	       "a record that lacks only its commit word holds the watermark");
	ring_writer_commit(outer, small);
	is_u64(ring_consume(&f.ring, &f.clock), f.clock.tsc,
	       "once all records are committed the watermark is the clock's");
	is_u64(pop(&f), 1, "the outer record is taken first");
	is_u64(ring_first(&f.ring)->tsc, 101, "the inner record's stamp does not go back");
	is_u64(pop(&f), 2, "the inner record is taken behind the outer one");
	is_u64(f.ring.counts.clamped, 1, "a stamp that would go back is counted");
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
	is_u64(ring_consume(&f.ring, &f.clock), 100,
	       "behind an uncommitted record the watermark is the last one taken");
	f.clock.now_ns += STALL_NS - 1;
	is_u64(ring_consume(&f.ring, &f.clock), 100,
	       "an uncommitted record is waited for within the time limit");
	f.clock.now_ns += 1;
	is_u64(ring_consume(&f.ring, &f.clock), f.clock.tsc,
	       "after the time limit an uncommitted record is skipped");
	is_u64(f.ring.counts.stalled, 1, "a skipped record is counted as stalled");
	is_u64(f.ring.counts.skipped_bytes, 2 * SMALL,
	       "all that was reserved behind the stalled record is skipped");
	ok(is_zero(f.ring.data, DATA + RING_MAX_RECORD), "what is skipped is zeroed");
	ring_writer_put(&f.writer, small, f.clock.tsc, 4);
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 1, "the record before the stalled one is taken");
	is_u64(pop(&f), 4, "a record written after the skip is taken");
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
	   "the damage crosses the end of the data");
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.stalled, 1, "damage across the end is skipped");
	ok(is_zero(f.ring.data, DATA + RING_MAX_RECORD),
	   "damage across the end is zeroed at both ends");
	ring_writer_put(&f.writer, small, f.clock.tsc, 7);
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 7, "after damage across the end the ring goes on");
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
	   "a ring is dead if %s", what);
	ok(!ring_writer_put(&f.writer, small, 2, 2), "no writer gets through if %s", what);
	teardown(&f);
}

static void test_positions(void)
{
	check_dead("the position went back", 9 * SMALL);
	check_dead("it is beyond the ring", 10 * SMALL + DATA + 8);
	check_dead("it is no multiple of 8", 11 * SMALL + 4);
	check_dead("it is as large as can be", UINT64_MAX - 7);
}

/* A position that the guest had written for a moment. */
static void check_no_mark(const char *what, uint64_t mark)
{
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	ring_consume(&f.ring, &f.clock);
	ring_writer_put(&f.writer, small, 2, 2);
	ok(ring_has_passed(&f.ring, mark), "nothing is waited for %s", what);
	teardown(&f);
}

static void test_marks(void)
{
	struct fixture f;
	uint64_t mark;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	mark = f.writer.header->reserve;
	ring_writer_put(&f.writer, small, 2, 2);
	ok(!ring_has_passed(&f.ring, mark), "a record is in the ring");
	ring_consume(&f.ring, &f.clock);
	ok(ring_has_passed(&f.ring, mark) && ring_has_passed(&f.ring, 2 * SMALL),
	   "it has left it, with the one behind it");
	f.writer.header->reserve = UINT64_MAX - 7;
	ok(!ring_has_passed(&f.ring, 3 * SMALL), "an impossible position may be waited for");
	ring_consume(&f.ring, &f.clock);
	ok(ring_has_passed(&f.ring, 3 * SMALL), "until a pass has met it");
	teardown(&f);
	check_no_mark("in front of the ring", 0);
	check_no_mark("behind what is reserved", 2 * SMALL + 8);
	check_no_mark("beyond the ring", SMALL + DATA + 8);
	check_no_mark("far away", (UINT64_C(1) << 63) + 8);
	check_no_mark("as far as can be", UINT64_MAX - 7);
}

static void test_stamps(void)
{
	struct fixture f;

	setup(&f);
	f.clock = (struct ring_clock){.tsc = 1000, .margin = 100};
	ring_writer_put(&f.writer, small, 950, 1);
	ring_writer_put(&f.writer, small, 5000, 2);
	is_u64(ring_consume(&f.ring, &f.clock), 900,
	       "the watermark stays the margin behind the clock");
	is_u64(pop(&f), 0, "a record within the margin waits");
	f.clock.tsc = 1020;
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 0, "a record waits for all the time that it is within the margin");
	f.clock.tsc = 2000;
	ring_consume(&f.ring, &f.clock);
	is_u64(pop(&f), 1, "a record behind the margin is taken");
	is_u64(f.ring.counts.clamped, 0, "a record that waited keeps its stamp");
	is_u64(pop(&f), 0, "a record later than the clock waits for the next pass");
	f.clock.tsc = 3000;
	ring_consume(&f.ring, &f.clock);
	is_u64(ring_first(&f.ring)->tsc, 2900,
	       "a record that is still later than the clock gets the clock's stamp");
	is_u64(pop(&f), 2, "a record with a clamped stamp is taken");
	is_u64(f.ring.counts.clamped, 1, "a skipped record is counted as stalled");
	ring_raise_floor(&f.ring, 2950);
	ring_writer_put(&f.writer, small, 2920, 3);
	f.clock.tsc = 4000;
	ring_consume(&f.ring, &f.clock);
	is_u64(ring_first(&f.ring)->tsc, 2950, "no stamp is before the floor");
	teardown(&f);
}

static void test_doorbell(void)
{
	struct fixture f;

	setup(&f);
	ring_writer_put(&f.writer, small, 1, 1);
	ok(!ring_arm(&f.ring), "a ring with a record is not armed");
	ok(!f.writer.header->doorbell && ring_room(&f.ring) == RING_ROOM,
	   "arming in vain changes nothing");
	ring_consume(&f.ring, &f.clock);
	ok(!ring_arm(&f.ring), "a ring whose queue holds a record is not armed");
	pop(&f);
	ok(ring_arm(&f.ring), "an idle ring is armed");
	ok(f.writer.header->doorbell && !ring_writer_put(&f.writer, small, 2, 2) &&
		   ring_room(&f.ring) == RING_FULL,
	   "an armed ring has no room for the very next record");
	ring_consume(&f.ring, &f.clock);
	ok(!f.writer.header->doorbell && ring_writer_put(&f.writer, small, 2, 2),
	   "a pass disarms a ring");
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
	is_u64(f.ring.counts.lost, 7, "records that the guest counts as lost are counted once");
	f.writer.header->lost = 6;
	ring_consume(&f.ring, &f.clock);
	is_u64(f.ring.counts.lost, 7, "the count of lost records does not go back");
	is_u64(f.ring.counts.malformed, 1, "a guest's count that goes back is damage");
	teardown(&f);
}

/* The stamp of the newest record; 0 if there is none. */
static uint64_t newest(const struct fixture *f)
{
	uint64_t tsc;

	return ring_newest_stamp(&f->ring, &tsc) ? tsc : 0;
}

static void test_newest(void)
{
	static const struct ring_sample items = {4, 48, 1};
	struct ring_record *record;
	uint64_t written = 0;
	struct fixture f;

	setup(&f);
	is_u64(newest(&f), 0, "an empty ring has no newest record");
	for (int rounds = 0; rounds < 20; rounds++) {
		while (ring_writer_put(&f.writer, written % 3 ? items : small, written + 1, 1))
			written++;
		if (newest(&f) != written)
			break;
		f.clock.tsc = written;
		ring_consume(&f.ring, &f.clock);
		while (pop(&f))
			;
	}
	ok(f.writer.header->reserve > 4 * DATA && !newest(&f),
	   "the newest record is found wherever the ring begins, until it is taken");
	ring_writer_put(&f.writer, small, written + 1, 1);
	record = ring_writer_reserve(&f.writer, SMALL);
	ring_writer_put(&f.writer, small, written + 3, 1);
	is_u64(newest(&f), written + 1, "what lies behind an unfinished record is not known");
	record->tsc = written + 2;
	ring_writer_commit(record, small);
	is_u64(newest(&f), written + 3, "it is when the record is finished");
	ring_writer_commit(record, (struct ring_sample){5, SMALL, 0});
	is_u64(newest(&f), written + 1, "what lies behind a damaged record is not known");
	f.writer.header->reserve += DATA;
	is_u64(newest(&f), 0, "an impossible position shows no record");
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
	test_marks();
	test_stamps();
	test_doorbell();
	test_drops();
	test_newest();
	return tap_done();
}
