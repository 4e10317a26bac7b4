// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Three rings whose memory is damaged between the steps of writers, passes and doorbells. The input
 * is a list of steps of four bytes each.
 */
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/ring.h"
#include "tests/lib/ring-writer.h"

enum { NR_RINGS = 3, DATA = RING_MIN_LARGE, QUEUE = 2 * RING_MAX_RECORD, NR_IDS = 5, NR_LAST = 16 };

static const struct ring_shape shapes[NR_IDS] = {{.size = 24, .items = 32},
						 {.size = 136, .role = RING_CALL},
						 {.size = RING_MAX_RECORD, .role = RING_RETURN},
						 {0},
						 {.size = 32, .role = RING_WHOLE}};

struct state {
	uint8_t *memory[NR_RINGS];
	struct ring rings[NR_RINGS];
	struct ring_record *pending[NR_RINGS]; /* reserved and not yet committed */
	struct ring_stacks stacks;
	struct ring_merge merge;
	struct ring_clock clock;
	uint64_t emitted_tsc; /* the latest of the passes before */
	uint64_t newest_tsc;  /* likewise, with this one */
	uint64_t latest_tsc;
	uint64_t last_tsc[NR_RINGS];
	struct {
		uint64_t stack, tsc;
	} stacks_last[NR_LAST]; /* of records that are not alone, some */
	uint64_t nr_out[NR_RINGS];
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void create(struct state *s)
{
	const struct ring_config config = {DATA, QUEUE, shapes, NR_IDS};

	*s = (struct state){.stacks.shift = 14,
			    .clock = {.tsc = 1000, .margin = 10, .stall_ns = 50, .late_ns = 50}};
	for (int i = 0; i < NR_RINGS; i++) {
		s->memory[i] = malloc(ring_stride(DATA));
		require(s->memory[i] && !ring_init(&s->rings[i], s->memory[i], &config, NULL));
	}
	require(!ring_merge_init(&s->merge, s->rings, NR_RINGS, &s->stacks, NULL));
}

static void destroy(struct state *s)
{
	for (int i = 0; i < NR_RINGS; i++) {
		ring_deinit(&s->rings[i]);
		free(s->memory[i]);
	}
}

/* On one stack, those that are not alone are in order, whatever ring they are in. */
static void check_stack(struct state *s, const struct ring_taken *taken)
{
	const uint64_t stack = ring_stack_of(&s->stacks, taken->key + RING_KEY_BIAS);
	const unsigned int i = ring_stack_hash(stack) % NR_LAST;

	if (s->stacks_last[i].stack == stack)
		require(taken->tsc >= s->stacks_last[i].tsc);
	s->stacks_last[i].stack = stack;
	s->stacks_last[i].tsc = taken->tsc;
}

/* What holds for each record that is emitted, whatever the guest wrote. */
static void check_record(struct state *s, const struct ring_taken *taken)
{
	const struct ring_shape *shape;

	require(taken->ring < NR_RINGS && taken->id < NR_IDS);
	shape = &shapes[taken->id];
	require(shape->size && taken->items <= shape->items);
	require(taken->tsc >= s->last_tsc[taken->ring] && taken->tsc <= s->latest_tsc);
	require(taken->tsc >= s->emitted_tsc);
	require(!taken->returned ||
		(shape->role == RING_CALL && shapes[taken->returned_id].role == RING_RETURN));
	require(!taken->alone || taken->returned || shape->role == RING_WHOLE);
	if (!taken->alone && shape->role != RING_OTHER)
		check_stack(s, taken);
	s->last_tsc[taken->ring] = taken->tsc;
	if (s->newest_tsc < taken->tsc)
		s->newest_tsc = taken->tsc;
	s->nr_out[taken->ring] += taken->returned ? 2 : 1;
}

static void check_records(void *arg, const struct ring_taken *taken, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_record(arg, &taken[i]);
}

static uint64_t nr_queued(const struct ring *ring)
{
	struct ring copy = *ring;
	uint64_t n = 0;

	for (; ring_first(&copy); n++)
		ring_pop(&copy);
	return n;
}

static void check_ring(const struct state *s, int i, uint64_t consumed_before)
{
	const struct ring *ring = &s->rings[i];

	require(ring->consumed >= consumed_before && ring->consumed - consumed_before <= DATA);
	require(ring->queue.head <= ring->queue.tail && ring->queue.tail <= QUEUE);
	require(ring->counts.records == s->nr_out[i] + nr_queued(ring));
	require(ring->header->limit == ring->limit && !ring->header->doorbell);
	require(ring->limit == (ring->dead ? 0 : ring->consumed + DATA - RING_SLACK));
	require(!ring->dead || ring->counts.malformed);
}

static void pass(struct state *s, uint8_t ticks, int8_t clock_step)
{
	uint64_t consumed[NR_RINGS], newest;

	for (int i = 0; i < NR_RINGS; i++) {
		consumed[i] = s->rings[i].consumed;
		ring_newest_stamp(&s->rings[i], &newest);
	}
	s->clock.tsc += (uint64_t)(int64_t)clock_step;
	if (s->latest_tsc < s->clock.tsc)
		s->latest_tsc = s->clock.tsc;
	s->clock.now_ns += ticks;
	s->clock.late_ns = s->clock.stall_ns && ticks % 2 ? 20 : s->clock.stall_ns;
	s->emitted_tsc = s->newest_tsc;
	ring_merge_pass(&s->merge, &s->clock, check_records, s);
	for (int i = 0; i < NR_RINGS; i++)
		check_ring(s, i, consumed[i]);
}

static struct ring_sample pick_sample(uint8_t choice)
{
	static const struct ring_sample samples[] = {
		{0, 24, 0},   {1, 136, 0},  {2, RING_MAX_RECORD, 0},
		{3, 40, 0},   {4, 32, 0},   {0, 32, 1},
		{0, 280, 32}, {0, 288, 33},
	};

	return samples[choice % (sizeof(samples) / sizeof(samples[0]))];
}

/* A record, complete or to be committed later, maybe as something else. */
static void write_record(struct state *s, int i, uint8_t choice, uint8_t age)
{
	struct ring_sample sample = pick_sample(choice);
	struct ring_writer writer = ring_writer(s->memory[i], DATA);
	struct ring_record *record;

	if (writer.header->reserve % RING_RECORD_ALIGN)
		return;
	record = ring_writer_reserve(&writer, sample.size);
	if (!record)
		return;
	record->tsc = s->clock.tsc + 20 - age;
	ring_writer_fill(record, sample.size, age);
	if (choice & 0x80)
		s->pending[i] = record;
	else
		ring_writer_commit(record, sample);
}

static void commit_pending(struct state *s, int i, uint8_t choice)
{
	if (s->pending[i])
		ring_writer_commit(s->pending[i], pick_sample(choice));
	s->pending[i] = NULL;
}

/* Any byte of the memory, or a field of the header by a little. */
static void scribble(struct state *s, int i, const uint8_t *bytes)
{
	static const size_t fields[] = {offsetof(struct ring_header, reserve),
					offsetof(struct ring_header, lost),
					offsetof(struct ring_header, limit)};
	size_t offset = ((size_t)bytes[0] << 8 | bytes[1]) % ring_stride(DATA);
	uint64_t value;

	if (bytes[0] < 0xf0) {
		s->memory[i][offset] = bytes[2];
		return;
	}
	offset = fields[bytes[1] % 3];
	memcpy(&value, s->memory[i] + offset, sizeof(value));
	value += (uint64_t)(int64_t)(int8_t)bytes[2];
	memcpy(s->memory[i] + offset, &value, sizeof(value));
}

static void arm(struct state *s, int i)
{
	bool armed = ring_arm(&s->rings[i]);
	struct ring_writer writer = ring_writer(s->memory[i], DATA);

	if (armed)
		require(!ring_writer_reserve(&writer, 16) && ring_room(&s->rings[i]) != RING_ROOM);
}

static bool is_drained(const struct state *s)
{
	bool drained = true;

	for (int i = 0; i < NR_RINGS; i++)
		drained &= ring_is_drained(&s->rings[i]);
	return drained;
}

/* Whatever is in the rings, and though writers go on, draining ends: one of any two passes takes or
 * emits one record at least, of 24 bytes or more. */
static void drain(struct state *s)
{
	unsigned int most = 2 * 2 * NR_RINGS * (DATA + QUEUE) / 24 + 2;

	s->clock.margin = s->clock.stall_ns = 0;
	for (int i = 0; i < NR_RINGS; i++)
		ring_close(&s->rings[i]);
	do {
		for (int i = 0; i < NR_RINGS; i++)
			write_record(s, i, 0, (uint8_t)most);
		pass(s, 0, 0);
		require(most--);
	} while (!is_drained(s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s;

	create(&s);
	for (; size >= 4; data += 4, size -= 4) {
		int ring = data[0] >> 4 & 3;

		ring = ring < NR_RINGS ? ring : 0;
		switch (data[0] & 15) {
		case 0:
		case 1:
			pass(&s, data[1], (int8_t)data[2]);
			break;
		case 2:
			scribble(&s, ring, data + 1);
			break;
		case 3:
			arm(&s, ring);
			break;
		case 4:
			commit_pending(&s, ring, data[1]);
			break;
		default:
			write_record(&s, ring, data[1], data[2]);
		}
	}
	pass(&s, 0, 0);
	drain(&s);
	destroy(&s);
	return 0;
}
