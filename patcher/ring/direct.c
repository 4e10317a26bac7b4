/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A pass over records that are events by themselves. */
#include <string.h>
#include "patcher/ring/internal.h"

enum step { STEP_EMITTED, STEP_END, STEP_UNCOMMITTED, STEP_MALFORMED };

/* A stamp that is not between the ring's floor and the horizon. False: it is for a later pass. */
__attribute__((cold, noinline)) static bool mend_stamp(struct ring *ring, uint64_t position,
						       uint64_t *tsc,
						       const struct ring_clock *clock)
{
	if (ring_is_later(ring, position, *tsc, clock))
		return false;
	*tsc = ring_clamp(ring, *tsc, ring_horizon(clock));
	return true;
}

/*
 * Emit records behind each other, up to the end of the data. What the emitter has seen is zeroed at
 * once, before the guest gets the room back. The guest may change a record at any time: its header
 * is read once, and then believed.
 */
static enum step emit_run(struct ring *ring, uint64_t end, const struct ring_clock *clock,
			  direct_emit_fn *emit, void *arg)
{
	const struct ring_shape *const shapes = ring->config.shapes;
	const uint64_t begin = ring->consumed, horizon = ring_horizon(clock);
	uint8_t *const first = ring->data + ring_offset_of(ring, begin);
	const uint64_t left = ring->config.data_bytes - ring_offset_of(ring, begin);
	const uint64_t stop = end - begin < left ? end : begin + left;
	const struct direct_record *record = (const void *)first;
	enum step step = STEP_EMITTED;
	uint64_t position = begin;

	while (position < stop) {
		/* beyond all ids if it is not committed */
		const uint32_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
		const uint32_t id = commit ^ RING_COMMITTED;
		const size_t size = id < ring->config.nr_shapes ? shapes[id].size : 0;
		uint64_t tsc;

		if (!size || size > end - position) {
			step = commit ? STEP_MALFORMED : STEP_UNCOMMITTED;
			break;
		}
		tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
		if ((tsc > horizon || tsc < ring->floor) &&
		    !mend_stamp(ring, position, &tsc, clock)) {
			step = STEP_END;
			break;
		}
		ring->floor = tsc;
		emit(arg, id, tsc, record);
		ring->counts.records++;
		position += size;
		record = (const void *)((const uint8_t *)record + size);
	}
	memset(first, 0, position - begin);
	ring->consumed = position;
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
