/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_STRAIGHT_H
#define SONDE_PATCHER_RING_STRAIGHT_H

#include "patcher/ring/internal.h"

/*
 * Records from the rings to the emitter, without a queue between. The headers of some records of
 * each ring are read ahead, in a loop of its own; then the rings are merged by what was read. That
 * loop is inline for the sake of the emitter, which becomes part of it.
 */
enum ring_head_state {
	RING_HEAD_RECORD,
	RING_HEAD_END,     /* no more record before the horizon */
	RING_HEAD_UNUSUAL, /* something for ring_consume() */
};

/* All that was read ahead was emitted: the guest may get the room back, and more is read. */
enum ring_head_state ring_read_ahead(struct ring *ring, struct ring_head *head, uint64_t horizon);
/* Find the first record of each ring. False: one is unusual. */
bool ring_find_heads(struct ring_merge *merge, uint64_t horizon);
/* No ring has a record that is older than what was emitted. */
void ring_end_straight(struct ring_merge *merge);

/* Emit records of the CPU with the oldest one, as long as they are older than those of all others.
 */
RING_INLINE enum ring_head_state ring_emit_run(struct ring_merge *merge, uint64_t horizon,
					       ring_emit_fn *emit, void *arg, int *ret)
{
	const unsigned int cpu = merge->order[0].cpu;
	const uint64_t until = ring_order_until(merge);
	struct ring_head *const head = &merge->heads[cpu];
	const struct ring_taken *next = head->next;
	enum ring_head_state state;

	do {
		*ret = emit(arg, cpu, next);
		if (*ret)
			return RING_HEAD_UNUSUAL;
		head->next = ++next;
		if (next == head->end) {
			state = ring_read_ahead(merge->rings[cpu], head, horizon);
			if (state != RING_HEAD_RECORD)
				return state;
			next = head->next;
		}
	} while (next->tsc <= until);
	merge->order[0].tsc = next->tsc;
	return RING_HEAD_RECORD;
}

/* Emit records straight from the rings, in order, up to the horizon or to the first one that is
 * unusual. Returns 0, or what `emit` failed with. */
RING_INLINE int ring_merge_straight(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit,
				    void *arg)
{
	enum ring_head_state state =
		ring_find_heads(merge, horizon) ? RING_HEAD_RECORD : RING_HEAD_UNUSUAL;
	int ret = 0;

	while (state != RING_HEAD_UNUSUAL && merge->nr_order) {
		state = ring_emit_run(merge, horizon, emit, arg, &ret);
		if (state == RING_HEAD_END)
			ring_order_drop(merge);
		else
			ring_order_settle(merge);
	}
	ring_end_straight(merge);
	return ret;
}

/*
 * One pass over all rings. Returns 0, or what `emit` failed with. Time stamps never go back from
 * one call of `emit` to the next, in this pass or over several. A clock that goes back stands
 * still.
 *
 * With margin 0 and stall_ns 0, and all rings closed, one of any two passes emits a record or takes
 * one out of a ring, until all are drained: a pass skips what is not committed, takes what was
 * later than the pass before, and empties one of the full queues.
 */
RING_INLINE int ring_merge_pass(struct ring_merge *merge, const struct ring_clock *clock,
				ring_emit_fn *emit, void *arg)
{
	const struct ring_clock monotonic = ring_merge_clock(merge, clock);
	int ret = 0;

	if (!ring_merge_has_queued(merge))
		ret = ring_merge_straight(merge, ring_horizon(&monotonic), emit, arg);
	return ret ? ret : ring_merge_queued(merge, &monotonic, emit, arg);
}

#endif
