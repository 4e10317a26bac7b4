/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records from the rings to the emitter, without a queue between. */
#include <stddef.h>
#include "patcher/ring/internal.h"

enum {
	RUN_BYTES = 65536, /* that the guest gets back at a time */
	RING_FIELDS = offsetof(struct ring_record, fields) / sizeof(uint64_t),
};

enum head_state {
	HEAD_RECORD,
	HEAD_END,     /* no more record before the horizon */
	HEAD_UNUSUAL, /* something for ring_consume() */
};

/* Look at the next record. Its header is read once, and then believed. */
static inline enum head_state look(const struct ring *ring, struct ring_head *head,
				   uint64_t horizon)
{
	const struct ring_record *record = (const void *)head->record;
	const struct ring_shape *shape;

	if (head->at == head->end)
		return HEAD_END;
	/* beyond all ids if it is not committed */
	head->id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
	if (head->id >= ring->config.nr_shapes)
		return HEAD_UNUSUAL;
	shape = &ring->config.shapes[head->id];
	head->size = shape->size;
	head->items = 0;
	if (shape->items) {
		head->items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (head->items > shape->items)
			return HEAD_UNUSUAL;
		head->size += head->items * (uint32_t)sizeof(uint64_t);
	}
	if (!shape->size || head->size > head->end - head->at)
		return HEAD_UNUSUAL;
	head->tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (head->tsc > horizon)
		return HEAD_END;
	return head->tsc < ring->floor ? HEAD_UNUSUAL : HEAD_RECORD;
}

/* A run of records begins, which lie behind each other: up to the end of the data, and not longer
 * than what the guest gets back at a time. */
static void begin_run(const struct ring *ring, struct ring_head *head)
{
	const uint32_t offset = ring_offset_of(ring, head->at);
	const uint64_t left = ring->config.data_bytes - offset;

	head->begin = head->at;
	head->stop = head->at + (left < RUN_BYTES ? left : RUN_BYTES);
	head->record = ring->data + offset;
}

/* The guest may get the room of what was emitted. */
static void end_run(struct ring *ring, struct ring_head *head)
{
	if (head->at == head->begin)
		return;
	ring->consumed = head->at;
	ring->counts.records += head->records;
	ring->moved = true;
	head->records = 0;
	begin_run(ring, head);
}

/* The record was emitted. Its memory is zeroed before the guest gets the room back. */
static inline void step_over(struct ring *ring, struct ring_head *head)
{
	ring_zero(head->record, head->size);
	ring->floor = head->tsc;
	head->records++;
	head->record += head->size;
	head->at += head->size;
	if (head->at < head->stop)
		return;
	end_run(ring, head);
	ring_publish_limit(ring);
}

/* Emit records of the CPU with the oldest one, as long as they are older than those of all others.
 */
static enum head_state emit_run(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit,
				void *arg, int *ret)
{
	const unsigned int cpu = merge->order[0].cpu;
	struct ring *const ring = merge->rings[cpu];
	struct ring_head *const head = &merge->heads[cpu];
	enum head_state state;

	do {
		const struct ring_taken taken = {head->id, head->items, head->tsc,
						 (const uint64_t *)(const void *)head->record +
							 RING_FIELDS};

		*ret = emit(arg, cpu, &taken);
		if (*ret)
			return HEAD_UNUSUAL;
		step_over(ring, head);
		state = look(ring, head, horizon);
		merge->order[0].tsc = head->tsc;
	} while (state == HEAD_RECORD && ring_order_holds(merge));
	return state;
}

/* Find the first record of each ring. False: one is unusual. */
static bool find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	merge->nr_order = 0;
	for (unsigned int cpu = merge->nr_rings; cpu-- > 0;) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];
		enum head_state state;

		*head = (struct ring_head){.at = ring->consumed, .end = ring_snapshot(ring)};
		begin_run(ring, head);
		state = look(ring, head, horizon);
		if (state == HEAD_RECORD)
			ring_order_add(merge, cpu, head->tsc);
		usual &= state != HEAD_UNUSUAL;
	}
	return usual;
}

/* No ring has a record that is older than what was emitted. */
static void end(struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		end_run(merge->rings[cpu], &merge->heads[cpu]);
		if (merge->watermark < merge->rings[cpu]->floor)
			merge->watermark = merge->rings[cpu]->floor;
	}
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		ring_raise_floor(merge->rings[cpu], merge->watermark);
}

int ring_merge_straight(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit, void *arg)
{
	enum head_state state = find_heads(merge, horizon) ? HEAD_RECORD : HEAD_UNUSUAL;
	int ret = 0;

	while (state != HEAD_UNUSUAL && merge->nr_order) {
		state = emit_run(merge, horizon, emit, arg, &ret);
		if (state == HEAD_END)
			ring_order_drop(merge);
		else
			ring_order_settle(merge);
	}
	end(merge);
	return ret;
}
