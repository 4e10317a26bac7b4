/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring of direct records: what gets out, in which order, and what damage does. */
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/direct.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum {
	DATA = RING_MIN_DATA,
	SHAPES = 4,
	SMALL = 0,
	LARGE = 2,
	LONG = 3, /* has items */
	ITEMS = 6,
	ITEMS_AT = 20,
	KEPT = 1 << 16,
	STALL = 1000,
	ROUNDS = 200000
};

static const struct ring_shape shapes[SHAPES] = {
	[SMALL] = {.size = 16},
	[LARGE] = {.size = 40},
	[LONG] = {.size = 24, .items = ITEMS, .items_at = ITEMS_AT}};
static const struct ring_config config = {
	.data_bytes = DATA, .shapes = shapes, .nr_shapes = SHAPES};

static uint64_t *memory;
static struct ring ring;
static struct ring_writer writer;
static struct ring_clock now;

static struct {
	uint32_t id, size;
	uint64_t ip, ns;
} seen[KEPT];
static size_t nr_seen;
static struct tsc_quick_clock quick;
static uint64_t nr_other; /* times that are not those of the records' stamps */
static uint64_t nr_mixed;

static uint64_t ns_of(uint64_t tsc)
{
	return tsc_clock_ns(&quick.clock, tsc);
}

static void keep_record(const struct direct_run *run, size_t n)
{
	const bool mixed = run->id == (uint32_t)DIRECT_MIXED;
	const struct direct_record *record =
		(const void *)(mixed ? run->at[n] : run->first + n * run->size);

	nr_mixed += mixed;
	nr_other += (uint64_t)run->ns[n] != ns_of(record->tsc);
	seen[nr_seen].id = mixed ? run->ids[n] : run->id;
	seen[nr_seen].size = mixed ? shapes[run->ids[n]].size : run->size;
	seen[nr_seen].ip = run->ip[n];
	seen[nr_seen++].ns = (uint64_t)run->ns[n];
}

static void keep(void *arg, struct direct_batch *batch)
{
	(void)arg;
	for (size_t i = 0; i < batch->nr_runs; i++)
		for (size_t n = 0; n < batch->runs[i].n && nr_seen < KEPT; n++)
			keep_record(&batch->runs[i], n);
}

/* 2.1 GHz, since some time. */
static void set_clock(void)
{
	struct tsc_clock clock = {.tsc0 = 15, .ns0 = 1000000007};

	if (tsc_clock_set_rate(&clock, 2100000, NULL))
		abort();
	quick = tsc_clock_quick(&clock);
}

static void setup(void)
{
	memory = calloc(1, ring_stride(DATA));
	if (!memory || ring_init(&ring, memory, &config, NULL))
		abort();
	writer = ring_writer(memory, DATA);
	now = (struct ring_clock){.tsc = 1000, .stall_ns = STALL, .late_ns = STALL};
	nr_seen = 0;
}

static void teardown(void)
{
	ring_deinit(&ring);
	free(memory);
}

static struct direct_record *reserve(uint32_t id)
{
	return (struct direct_record *)ring_writer_reserve(&writer, shapes[id].size);
}

static bool put(uint32_t id, uint64_t tsc, uint32_t ip)
{
	struct direct_record *record = reserve(id);

	if (!record)
		return false;
	record->tsc = tsc;
	record->ip = ip;
	record->commit = ring_commit(id);
	return true;
}

/* With so many items, of which it says so many. */
static bool put_long(uint64_t tsc, uint32_t items, uint32_t said)
{
	const struct ring_sample sample = {LONG, shapes[LONG].size + 8 * items, 0};
	struct ring_record *record = ring_writer_reserve(&writer, sample.size);

	if (!record)
		return false;
	record->tsc = tsc;
	ring_writer_fill(record, sample.size, UINT64_MAX);
	((uint32_t *)(void *)record)[ITEMS_AT / 4] = said;
	ring_writer_commit(record, sample);
	return true;
}

static void pass(void)
{
	ring_consume_direct(&ring, &now, &quick, keep, NULL);
}

static bool is_clean(void)
{
	const uint8_t *bytes = (const uint8_t *)memory + RING_HEADER_BYTES;

	for (size_t i = 0; i < DATA + RING_MAX_RECORD; i++)
		if (bytes[i])
			return false;
	return true;
}

static void test_order(void)
{
	setup();
	put(SMALL, 10, 0x80000001);
	put(LARGE, 20, 0xffffffff);
	put(SMALL, 15, 3);
	pass();
	is_u64(nr_seen, 3, "three records get out in one pass");
	ok(seen[0].id == SMALL && seen[0].ip == 0xffffffff80000001 - DIRECT_SITE_BYTES &&
		   seen[1].id == LARGE && seen[1].ip == UINT64_MAX - DIRECT_SITE_BYTES,
	   "with their ids, and the addresses of their sites");
	ok(seen[2].ns == ns_of(20) && ring.counts.clamped == 1, "a stamp that goes back is raised");
	is_u64(nr_other, 1, "the others have the times of their stamps");
	put(SMALL, 2000, 4);
	pass();
	is_u64(nr_seen, 3, "a record from after the pass began waits");
	now.tsc = 3000;
	pass();
	ok(nr_seen == 4 && seen[3].ns == ns_of(2000), "for the next pass, which has its stamp");
	put(SMALL, UINT64_MAX, 5);
	pass();
	pass();
	ok(nr_seen == 5 && seen[4].ns == ns_of(3000),
	   "a stamp from the future is lowered to the pass");
	ok(is_clean() && ring.counts.records == 5, "the memory is zeroed");
	teardown();
}

static void test_unfinished(void)
{
	struct direct_record *record;

	setup();
	put(SMALL, 10, 1);
	record = reserve(SMALL);
	put(SMALL, 30, 3);
	pass();
	ok(nr_seen == 1 && ring_is_waiting(&ring), "a record that is not committed is waited for");
	record->tsc = 20;
	record->ip = 2;
	record->commit = ring_commit(SMALL);
	pass();
	ok(nr_seen == 3 && seen[1].ip + DIRECT_SITE_BYTES == 2 &&
		   seen[2].ip + DIRECT_SITE_BYTES == 3,
	   "then all follow in order");
	reserve(LARGE);
	put(SMALL, 40, 4);
	pass();
	now.now_ns += STALL;
	pass();
	ok(nr_seen == 3 && ring.counts.stalled == 1 && is_clean(),
	   "one that never is costs what lies behind it");
	put(SMALL, 50, 5);
	pass();
	is_u64(nr_seen, 4, "the next record gets out");
	teardown();
}

static void test_damage(void)
{
	static const uint32_t commits[] = {1, RING_COMMITTED | 1, RING_COMMITTED | SHAPES,
					   UINT32_MAX};

	for (size_t i = 0; i < sizeof(commits) / sizeof(commits[0]); i++) {
		setup();
		reserve(SMALL)->commit = commits[i];
		put(SMALL, 10, 1);
		pass();
		ok(!nr_seen && ring.counts.malformed == 1 && is_clean(),
		   "commit word %#x is damage", commits[i]);
		put(SMALL, 20, 2);
		pass();
		is_u64(nr_seen, 1, "the next record gets out");
		teardown();
	}
	setup();
	ring_writer_reserve(&writer, 16);
	((struct direct_record *)(void *)((uint8_t *)memory + RING_HEADER_BYTES))->commit =
		ring_commit(LARGE);
	pass();
	ok(!nr_seen && ring.counts.malformed == 1, "a record behind the reservation is damage");
	ring.header->reserve = DATA * 3 + 8;
	pass();
	ok(ring_room(&ring) == RING_DEAD, "an impossible position makes the ring dead");
	pass();
	ok(!nr_seen, "of which nothing more gets out");
	teardown();
}

static void test_items(void)
{
	uint64_t tsc;

	setup();
	put_long(10, 3, 3);
	put_long(20, 0, 0);
	put_long(30, ITEMS, ITEMS);
	put(SMALL, 40, 1);
	ok(ring_newest_stamp(&ring, &tsc) && tsc == 40, "the last one's stamp is the newest");
	pass();
	ok(nr_seen == 4 && seen[0].size == 24 + 24 && seen[1].size == 24 &&
		   seen[2].size == 24 + 8 * ITEMS && seen[3].id == SMALL && is_clean(),
	   "records are as long as they say");
	put_long(50, ITEMS + 1, ITEMS + 1);
	pass();
	ok(nr_seen == 4 && ring.counts.malformed == 1 && is_clean(),
	   "one that says more than there can be is damage");
	put_long(60, 1, 2);
	pass();
	ok(nr_seen == 4 && ring.counts.malformed == 2 && is_clean(),
	   "as is one that says more than was reserved");
	teardown();
}

static bool put_some(uint64_t tsc, uint32_t ip)
{
	const uint32_t items = (uint32_t)rand() % (ITEMS + 1);

	if (rand() % 3 == 0)
		return put_long(tsc, items, items);
	return put(rand() % 2 ? SMALL : LARGE, tsc, ip);
}

/* Mostly shortly after the one before. */
static uint64_t later_than(uint64_t tsc)
{
	return tsc + (rand() % 50 ? 1 : (uint64_t)rand());
}

/* Wraps many times; a random part is damaged now and then. */
static void test_random(bool damage)
{
	uint64_t written = 0, tsc = 0, last = 0;
	bool good = true;

	setup();
	nr_other = nr_mixed = 0;
	now.stall_ns = 0;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t n = (uint32_t)rand() % 40;
		uint64_t next = later_than(tsc);

		for (; n && put_some(next, (uint32_t)written); n--) {
			written++;
			tsc = next;
			next = later_than(tsc);
		}
		if (damage && rand() % 4 == 0)
			memory[(size_t)rand() % (ring_stride(DATA) / 8)] ^= 1ull << rand() % 64;
		now.tsc = tsc;
		nr_seen = 0;
		pass();
		for (size_t k = 0; k < nr_seen; k++) {
			good &= seen[k].ns >= last && seen[k].ns <= ns_of(tsc);
			good &= shapes[seen[k].id].size != 0;
			last = seen[k].ns;
		}
		if (ring.dead) {
			teardown();
			setup();
			now.stall_ns = 0;
			tsc = last = 0;
		}
	}
	if (damage)
		ok(good, "whatever the guest damages, ids have shapes and time does not go back");
	else
		ok(good && ring.counts.records == written && is_clean() && !ring.counts.clamped &&
			   !nr_other,
		   "%lu records wrap the ring and all get out, with their times", written);
	ok(nr_mixed, "%lu of them mixed", nr_mixed);
	teardown();
}

int main(void)
{
	srand(20080722);
	set_clock();
	test_order();
	test_unfinished();
	test_damage();
	test_items();
	test_random(false);
	test_random(true);
	return tap_done();
}
