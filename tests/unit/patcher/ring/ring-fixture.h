/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_PATCHER_RING_RING_FIXTURE_H
#define SONDE_TESTS_UNIT_PATCHER_RING_RING_FIXTURE_H

#include <stdint.h>
#include <stdlib.h>
#include "patcher/ring/ring.h"
#include "tests/lib/ring-writer.h"

/* A ring with its reader and a writer that writes as trampolines do. */
enum {
	DATA = 2 * RING_MIN_LARGE,
	QUEUE = 2 * DATA,
	STALL_NS = 1000,
	NR_IDS = 6,
	SMALL = 24,
	BIG = RING_MAX_RECORD
};

/* No record has the id 5. */
static const struct ring_shape shapes[NR_IDS] = {
	{.size = SMALL}, {.size = 40}, {.size = BIG}, {.size = 136}, {.size = 40, .items = 9}, {0}};

static const struct ring_sample small = {0, SMALL, 0};
static const struct ring_sample big = {2, BIG, 0};

struct fixture {
	void *memory;
	struct ring ring;
	struct ring_writer writer;
	struct ring_clock clock;
};

static void setup(struct fixture *f)
{
	const struct ring_config config = {DATA, QUEUE, shapes, NR_IDS};

	f->memory = malloc(ring_stride(DATA));
	if (!f->memory || ring_init(&f->ring, f->memory, &config, NULL))
		abort();
	f->writer = ring_writer(f->memory, DATA);
	f->clock = (struct ring_clock){.tsc = 1000000, .stall_ns = STALL_NS, .late_ns = STALL_NS};
}

static void teardown(struct fixture *f)
{
	ring_deinit(&f->ring);
	free(f->memory);
}

/* The oldest record's first field, after checking that it is whole; 0 if there is none. */
static uint64_t pop(struct fixture *f)
{
	const struct ring_record *record = ring_first(&f->ring);
	uint64_t value;

	if (!record)
		return 0;
	value = record->fields[0];
	if (!ring_writer_is_filled(record, shapes[ring_id(record)].size + 8 * record->items, value))
		value = UINT64_MAX;
	ring_pop(&f->ring);
	return value;
}

#endif
