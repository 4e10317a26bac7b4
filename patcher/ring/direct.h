/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_DIRECT_H
#define SONDE_PATCHER_RING_DIRECT_H

#include "patcher/ring/internal.h"

/*
 * A pass over a ring of direct records (layout.h): each one that ring_consume() would take is
 * emitted at once. `record` is the guest's memory, which may change meanwhile: only the fields
 * behind the header are to be read, each once. `tsc` never goes back, and id has a shape.
 *
 * It is inline for the sake of the emitter, which is called for each record and becomes part of the
 * loop.
 */
typedef void direct_emit_fn(void *arg, uint32_t id, uint64_t tsc,
			    const struct direct_record *record);

enum direct_step {
	DIRECT_EMITTED,
	DIRECT_END,
	DIRECT_UNCOMMITTED,
	DIRECT_MALFORMED,
};

/* A stamp that is not between the ring's floor and the horizon. False: it is for a later pass. */
__attribute__((cold)) bool direct_mend_stamp(struct ring *ring, uint64_t position, uint64_t *tsc,
					     const struct ring_clock *clock);

/*
 * Emit records behind each other, up to the end of the data. What the emitter has seen is zeroed at
 * once, before the guest gets the room back. The guest may change a record at any time: its header
 * is read once, and then believed.
 */
RING_INLINE enum direct_step direct_emit_run(struct ring *ring, uint64_t end,
					     const struct ring_clock *clock, direct_emit_fn *emit,
					     void *arg)
{
	const struct ring_shape *const shapes = ring->config.shapes;
	const uint32_t nr_shapes = (uint32_t)ring->config.nr_shapes;
	const uint64_t begin = ring->consumed, horizon = ring_horizon(clock);
	const uint64_t left = ring->config.data_bytes - ring_offset_of(ring, begin);
	const uint64_t stop = end - begin < left ? end : begin + left;
	uint8_t *at = ring->data + ring_offset_of(ring, begin);
	enum direct_step step = DIRECT_EMITTED;
	uint64_t position = begin, floor = ring->floor, records = 0;

	while (position < stop) {
		const struct direct_record *record = (const void *)at;
		/* beyond all ids if it is not committed */
		const uint32_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
		const uint32_t id = commit ^ RING_COMMITTED;
		const size_t size = id < nr_shapes ? shapes[id].size : 0;
		uint64_t tsc;

		if (!size || size > end - position) {
			step = commit ? DIRECT_MALFORMED : DIRECT_UNCOMMITTED;
			break;
		}
		tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
		if (tsc > horizon || tsc < floor) {
			ring->floor = floor;
			if (!direct_mend_stamp(ring, position, &tsc, clock)) {
				step = DIRECT_END;
				break;
			}
		}
		floor = tsc;
		emit(arg, id, tsc, record);
		records++;
		ring_zero(at, size);
		position += size;
		at += size;
	}
	ring->floor = floor;
	ring->counts.records += records;
	ring->consumed = position;
	return step;
}

RING_INLINE void ring_consume_direct(struct ring *ring, const struct ring_clock *clock,
				     direct_emit_fn *emit, void *arg)
{
	const uint64_t before = ring->consumed, end = ring_snapshot(ring);
	enum direct_step step = DIRECT_EMITTED;

	while (step != DIRECT_END && ring->consumed != end) {
		step = direct_emit_run(ring, end, clock, emit, arg);
		if (step == DIRECT_UNCOMMITTED) {
			if (!ring_is_stalled(ring, clock))
				break;
			ring->counts.stalled++;
			ring_skip_to(ring, end);
		} else if (step == DIRECT_MALFORMED) {
			ring->counts.malformed++;
			ring_skip_to(ring, end);
		}
	}
	ring_end_pass(ring, before);
}

#endif
