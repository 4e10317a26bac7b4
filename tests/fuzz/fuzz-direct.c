// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A ring of direct records whose memory is damaged between the steps of its writer and passes, and
 * while a batch is read. The input is a list of steps of four bytes each.
 */
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/direct.h"
#include "tests/lib/ring-writer.h"

enum { DATA = RING_MIN_LARGE, NR_IDS = 5, ITEMS_AT = 20, STALL = 50 };

static const struct ring_shape shapes[NR_IDS] = {{.size = 16},
						 {.size = 40},
						 {0},
						 {.size = RING_MAX_RECORD},
						 {.size = 24, .items = 200, .items_at = ITEMS_AT}};

struct state {
	uint8_t *memory;
	struct ring ring;
	struct ring_clock clock;
	struct tsc_quick_clock quick;
	uint64_t nr_out;
	int64_t last_ns, latest_ns;
	size_t damaged; /* the next batch finds this byte changed; 0: none */
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* A record of this id lies in the memory. */
static void check_record(const struct state *s, const uint8_t *at, uint32_t id, uint32_t size)
{
	const uint8_t *data = s->memory + RING_HEADER_BYTES;

	require(id < NR_IDS && size && !(size % RING_RECORD_ALIGN));
	require(size >= shapes[id].size && size <= shapes[id].size + 8u * shapes[id].items);
	require(at >= data && at < data + DATA);
}

/* Returns the end of the last one. */
static const uint8_t *check_mixed(const struct state *s, const struct direct_run *run)
{
	const uint8_t *at = run->first;
	uint32_t mask = 0;

	require(run->n >= 2);
	for (size_t i = 0; i < run->n; i++) {
		const uint32_t id = run->ids[i];

		check_record(s, at, id, shapes[id % NR_IDS].size);
		require(run->at[i] == at && !shapes[id].items);
		mask |= UINT32_C(1) << id;
		at += shapes[id].size;
	}
	require(run->mask == mask);
	return at;
}

static const uint8_t *check_run(const struct state *s, const struct direct_run *run)
{
	if (run->id == (uint32_t)DIRECT_MIXED)
		return check_mixed(s, run);
	require(run->n);
	for (size_t i = 0; i < run->n; i++)
		check_record(s, run->first + i * run->size, run->id, run->size);
	require(run->n == 1 || !shapes[run->id].items);
	return run->first + run->n * run->size;
}

/* What holds for each batch, whatever the guest wrote, or writes meanwhile. */
static void check_batch(void *arg, struct direct_batch *batch)
{
	struct state *s = arg;
	const uint8_t *at = batch->runs[0].first;
	size_t n = 0;

	require(batch->n && batch->n <= DIRECT_BATCH);
	for (size_t i = 0; i < batch->nr_runs; i++) {
		require(batch->runs[i].first == at);
		require(batch->runs[i].ns == batch->ns + n && batch->runs[i].ip == batch->ip + n);
		at = check_run(s, &batch->runs[i]);
		n += batch->runs[i].n;
	}
	require(n == batch->n);
	for (size_t i = 0; i < n; i++) {
		require(batch->ns[i] >= s->last_ns && batch->ns[i] <= s->latest_ns);
		s->last_ns = batch->ns[i];
	}
	s->nr_out += n;
	if (s->damaged)
		s->memory[s->damaged] ^= 0xff;
	s->damaged = 0;
}

static void pass(struct state *s, uint8_t ticks, uint8_t clock_step)
{
	const uint64_t before = s->ring.consumed;

	s->clock.tsc += clock_step;
	s->latest_ns = (int64_t)tsc_quick_ns(&s->quick, s->clock.tsc);
	s->clock.now_ns += ticks;
	ring_consume_direct(&s->ring, &s->clock, &s->quick, check_batch, s);
	require(s->ring.consumed - before <= DATA);
	require(s->ring.counts.records == s->nr_out);
	require(s->ring.limit == (s->ring.dead ? 0 : s->ring.consumed + DATA - RING_SLACK));
}

static void write_record(struct state *s, uint8_t choice, uint8_t age)
{
	static const struct ring_sample samples[] = {
		{0, 16, 0},  {1, 40, 0}, {3, RING_MAX_RECORD, 0}, {2, 24, 0},
		{5, 16, 0},  {4, 24, 0}, {4, 24 + 8 * 200, 200},  {4, 24 + 8 * 7, 7},
		{4, 24, 201}};
	struct ring_sample sample = samples[choice % (sizeof(samples) / sizeof(samples[0]))];
	struct ring_writer writer = ring_writer(s->memory, DATA);
	struct ring_record *record;

	if (writer.header->reserve % RING_RECORD_ALIGN)
		return;
	record = ring_writer_reserve(&writer, sample.size);
	if (!record)
		return;
	record->tsc = s->clock.tsc + 20 - age;
	if (sample.id == 4)
		((uint32_t *)(void *)record)[ITEMS_AT / 4] = sample.items;
	sample.items = 0;
	if (!(choice & 0x80))
		ring_writer_commit(record, sample);
}

/* Any byte of the memory, or the end of what is reserved by a little. */
static size_t scribble(struct state *s, const uint8_t *bytes)
{
	const size_t offset = ((size_t)bytes[0] << 8 | bytes[1]) % ring_stride(DATA);

	if (bytes[0] >= 0xf0)
		s->ring.header->reserve += (uint64_t)(int64_t)(int8_t)bytes[2];
	else
		s->memory[offset] = bytes[2];
	return offset;
}

static void create(struct state *s)
{
	const struct ring_config config = {
		.data_bytes = DATA, .shapes = shapes, .nr_shapes = NR_IDS};

	*s = (struct state){.clock = {.tsc = 1000, .stall_ns = STALL, .late_ns = STALL}};
	s->quick = tsc_clock_quick(&(const struct tsc_clock){.mult = UINT32_MAX});
	s->memory = malloc(ring_stride(DATA));
	require(s->memory && !ring_init(&s->ring, s->memory, &config, NULL));
}

/* Draining ends: a record from the future is left for one pass. */
static void drain(struct state *s)
{
	unsigned int most = 2 * DATA / 16 + 2;

	s->clock.stall_ns = 0;
	ring_close(&s->ring);
	for (; !ring_is_drained(&s->ring); most--) {
		require(most);
		pass(s, 0, 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s;

	create(&s);
	for (; size >= 4; data += 4, size -= 4) {
		switch (data[0] & 7) {
		case 0:
			pass(&s, data[1], data[2]);
			break;
		case 1:
			scribble(&s, data + 1);
			break;
		case 2:
			s.damaged = scribble(&s, data + 1);
			break;
		default:
			write_record(&s, data[1], data[2]);
		}
	}
	drain(&s);
	ring_deinit(&s.ring);
	free(s.memory);
	return 0;
}
