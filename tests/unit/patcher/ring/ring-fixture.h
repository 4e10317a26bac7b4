/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_UNIT_PATCHER_RING_RING_FIXTURE_H
#define SONDE_TESTS_UNIT_PATCHER_RING_RING_FIXTURE_H

#include <stdint.h>
#include <stdlib.h>
#include "patcher/ring/ring.h"
#include "tests/lib/ring-writer.h"

/* A ring with its reader and a writer that writes as trampolines do. */
enum { DATA = 8192, QUEUE = 16384, STALL_NS = 1000, NR_PROBES = 5, SMALL = 24, BIG = 512 };

static const struct ring_shape shapes[NR_PROBES] = {
	{.size = {[RING_ENTRY] = SMALL, [RING_RETURN] = 40}},
	{.size = {[RING_ENTRY] = 16, [RING_RETURN] = 40}},
	{.size = {[RING_ENTRY] = BIG}},
	{.size = {[RING_ENTRY] = 136}},
	{.size = {[RING_ENTRY] = 40, [RING_RETURN] = 16}, .items = {[RING_ENTRY] = 9}},
};

static const struct ring_commit small = {RING_ENTRY, 0, SMALL};
static const struct ring_commit big = {RING_ENTRY, 2, BIG};

struct fixture {
	void *memory;
	struct ring ring;
	struct ring_writer writer;
	struct ring_clock clock;
};

static void setup(struct fixture *f)
{
	const struct ring_config config = {DATA, QUEUE, shapes, NR_PROBES};

	f->memory = malloc(ring_stride(DATA));
	if (!f->memory || ring_init(&f->ring, f->memory, &config, NULL))
		abort();
	f->writer = ring_writer(f->memory, DATA);
	f->clock = (struct ring_clock){.tsc = 1000000, .stall_ns = STALL_NS};
}

static void teardown(struct fixture *f)
{
	ring_deinit(&f->ring);
	free(f->memory);
}

/* The oldest record's first field, after checking that it is whole; 0 if there is none. */
static uint64_t pop(struct fixture *f)
{
	const struct ring_record *record = ring_queue_first(&f->ring.queue);
	struct ring_commit commit;
	uint64_t value;

	if (!record)
		return 0;
	if (!ring_commit_decode(record->commit, &commit))
		abort();
	value = record->fields[0];
	if (!ring_writer_is_filled(record, commit.size, value))
		value = UINT64_MAX;
	ring_queue_pop(&f->ring.queue);
	return value;
}

#endif
