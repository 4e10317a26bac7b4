/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_STRAIGHT_H
#define SONDE_PATCHER_RING_STRAIGHT_H

#include <stddef.h>
#include "patcher/ring/internal.h"

/*
 * Records from the rings to the emitter, without a queue between. It is inline for the sake of the
 * emitter, which becomes part of the loop.
 */
enum { RING_FIELDS = offsetof(struct ring_record, fields) / sizeof(uint64_t) };

enum ring_head_state {
	RING_HEAD_RECORD,
	RING_HEAD_END,     /* no more record before the horizon */
	RING_HEAD_UNUSUAL, /* something for ring_consume() */
};

/* Look at the next record. Its header is read once, and then believed. */
RING_INLINE enum ring_head_state ring_look(const struct ring *ring, struct ring_head *head,
					   uint64_t horizon)
{
	const struct ring_record *record = (const void *)head->record;
	const struct ring_shape *shape;

	if (head->at == head->end)
		return RING_HEAD_END;
	/* beyond all ids if it is not committed */
	head->id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
	if (head->id >= ring->config.nr_shapes)
		return RING_HEAD_UNUSUAL;
	shape = &ring->config.shapes[head->id];
	head->size = shape->size;
	head->items = 0;
	if (shape->items) {
		head->items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (head->items > shape->items)
			return RING_HEAD_UNUSUAL;
		head->size += head->items * (uint32_t)sizeof(uint64_t);
	}
	if (!shape->size || head->size > head->end - head->at)
		return RING_HEAD_UNUSUAL;
	head->tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (head->tsc > horizon)
		return RING_HEAD_END;
	return head->tsc < ring->floor ? RING_HEAD_UNUSUAL : RING_HEAD_RECORD;
}

/* The guest may get the room of what was emitted. */
void ring_end_run(struct ring *ring, struct ring_head *head);
/* Find the first record of each ring. False: one is unusual. */
bool ring_find_heads(struct ring_merge *merge, uint64_t horizon);
/* No ring has a record that is older than what was emitted. */
void ring_end_straight(struct ring_merge *merge);

/* The record was emitted. Its memory is zeroed before the guest gets the room back. */
RING_INLINE void ring_step_over(struct ring *ring, struct ring_head *head)
{
	ring_zero(head->record, head->size);
	ring->floor = head->tsc;
	head->records++;
	head->record += head->size;
	head->at += head->size;
	if (head->at < head->stop)
		return;
	ring_end_run(ring, head);
	ring_publish_limit(ring);
}

/* Emit records of the CPU with the oldest one, as long as they are older than those of all others.
 */
RING_INLINE enum ring_head_state ring_emit_run(struct ring_merge *merge, uint64_t horizon,
					       ring_emit_fn *emit, void *arg, int *ret)
{
	const unsigned int cpu = merge->order[0].cpu;
	struct ring *const ring = merge->rings[cpu];
	struct ring_head *const head = &merge->heads[cpu];
	enum ring_head_state state;

	do {
		const struct ring_taken taken = {head->id, head->items, head->tsc,
						 (const uint64_t *)(const void *)head->record +
							 RING_FIELDS};

		*ret = emit(arg, cpu, &taken);
		if (*ret)
			return RING_HEAD_UNUSUAL;
		ring_step_over(ring, head);
		state = ring_look(ring, head, horizon);
		merge->order[0].tsc = head->tsc;
	} while (state == RING_HEAD_RECORD && ring_order_holds(merge));
	return state;
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
