/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pass over records that are events by themselves. */
#include <string.h>
#include "patcher/ring/internal.h"

/* Records behind each other, up to the end of the data. What the emitter has seen is zeroed at
 * once, before the guest gets the room back. */
struct direct_run {
	uint64_t begin, end; /* positions */
};

enum step { STEP_EMITTED, STEP_END, STEP_UNCOMMITTED, STEP_MALFORMED };

static inline size_t size_of(const struct ring *ring, uint32_t commit)
{
	uint32_t id = commit & ~RING_COMMITTED;

	if (!(commit & RING_COMMITTED) || id >= ring->config.nr_shapes)
		return 0;
	return ring->config.shapes[id].size;
}

/* The guest may change the record at any time: the header is read once, and then believed. */
static inline enum step emit_next(struct ring *ring, struct direct_run *run, uint64_t end,
				  const struct ring_clock *clock, direct_emit_fn *emit, void *arg)
{
	const struct direct_record *record =
		(const void *)(ring->data + ring_offset_of(ring, run->begin) +
			       (run->end - run->begin));
	uint32_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
	size_t size = size_of(ring, commit);
	uint64_t tsc;

	if (!commit)
		return STEP_UNCOMMITTED;
	if (!size || size > end - run->end)
		return STEP_MALFORMED;
	tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (tsc > ring_horizon(clock) || tsc < ring->floor) {
		if (ring_is_later(ring, run->end, tsc, clock))
			return STEP_END;
		tsc = ring_clamp(ring, tsc, ring_horizon(clock));
	}
	ring->floor = tsc;
	emit(arg, commit & ~RING_COMMITTED, tsc, record);
	run->end += size;
	return STEP_EMITTED;
}

static enum step emit_run(struct ring *ring, uint64_t end, const struct ring_clock *clock,
			  direct_emit_fn *emit, void *arg)
{
	struct direct_run run = {ring->consumed, ring->consumed};
	uint32_t offset = ring_offset_of(ring, run.begin);
	uint64_t wrap = run.begin - offset + ring->config.data_bytes;
	enum step step = STEP_EMITTED;
	uint64_t records = 0;

	while (step == STEP_EMITTED && run.end < wrap && run.end != end) {
		step = emit_next(ring, &run, end, clock, emit, arg);
		records += step == STEP_EMITTED;
	}
	memset(ring->data + offset, 0, run.end - run.begin);
	ring->consumed = run.end;
	ring->counts.records += records;
	return step;
}

void ring_consume_direct(struct ring *ring, const struct ring_clock *clock, direct_emit_fn *emit,
			 void *arg)
{
	const uint64_t before = ring->consumed, end = ring_snapshot(ring);
	enum step step = STEP_EMITTED;

	while (step != STEP_END && ring->consumed != end) {
		step = emit_run(ring, end, clock, emit, arg);
		if (step == STEP_UNCOMMITTED) {
			if (!ring_is_stalled(ring, clock))
				break;
			ring->counts.stalled++;
			ring_skip_to(ring, end);
		} else if (step == STEP_MALFORMED) {
			ring->counts.malformed++;
			ring_skip_to(ring, end);
		}
	}
	ring_end_pass(ring, before);
}
