/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records from the rings to the emitter, without a queue between. */
#include <string.h>
#include "patcher/ring/internal.h"

enum { CLEAR_BYTES = 65536 /* that the guest gets back at a time */ };

enum head_state {
	HEAD_RECORD,
	HEAD_END,     /* no more record before the horizon */
	HEAD_UNUSUAL, /* something for ring_consume() */
};

static inline const struct ring_record *record_at(const struct ring *ring, uint64_t position)
{
	return (const struct ring_record *)(const void *)(ring->data +
							  ring_offset_of(ring, position));
}

/* Look at the next record. Its header is read once, and then believed. */
static inline enum head_state look(const struct ring *ring, struct ring_head *head,
				   uint64_t horizon)
{
	const struct ring_record *record = record_at(ring, head->at);
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

/* Clear what was emitted, before the guest gets the room. It never crosses the end of the data. */
static void clear(struct ring *ring, struct ring_head *head)
{
	if (head->at == head->begin)
		return;
	memset(ring->data + ring_offset_of(ring, head->begin), 0, head->at - head->begin);
	ring->consumed = head->begin = head->at;
	ring->counts.records += head->records;
	ring->moved = true;
	head->records = 0;
}

/* Up to where records may be emitted before what is behind them has to be cleared: the end of the
 * data, or what the guest gets back at a time. */
static uint64_t run_limit(const struct ring *ring, const struct ring_head *head)
{
	const uint64_t left = ring->config.data_bytes - ring_offset_of(ring, head->begin);

	return head->begin + (left < CLEAR_BYTES ? left : CLEAR_BYTES);
}

/*
 * Emit records behind each other, from one that head describes on, as long as they are older than
 * `bound`, which is not behind the horizon. Stops, without a look at the next record, where
 * something has to be cleared.
 */
static int emit_to(struct ring *ring, struct ring_head *head, uint64_t bound, unsigned int cpu,
		   ring_emit_fn *emit, void *arg)
{
	const struct ring_shape *const shapes = ring->config.shapes;
	const uint64_t limit = run_limit(ring, head);
	const uint64_t stop = limit < head->end ? limit : head->end;
	struct ring_taken taken = {head->id, head->items, head->tsc,
				   record_at(ring, head->at)->fields};
	const uint8_t *at = (const uint8_t *)record_at(ring, head->at);
	uint32_t size = head->size, records = 0;
	uint64_t position = head->at;
	int ret = 0;

	for (;;) {
		const struct ring_record *record;

		ret = emit(arg, cpu, &taken);
		if (ret)
			break;
		records++;
		position += size;
		at += size;
		ring->floor = taken.tsc;
		if (position >= stop)
			break;
		record = (const struct ring_record *)(const void *)at;
		taken.id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
		if (taken.id >= ring->config.nr_shapes || shapes[taken.id].items)
			break;
		size = shapes[taken.id].size;
		if (!size || size > head->end - position)
			break;
		taken.items = 0;
		taken.fields = record->fields;
		taken.tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
		if (taken.tsc >= bound || taken.tsc < ring->floor)
			break;
	}
	head->at = position;
	head->records += records;
	return ret;
}

static void clear_run(struct ring *ring, struct ring_head *head)
{
	if (head->at < run_limit(ring, head))
		return;
	clear(ring, head);
	ring_publish_limit(ring);
}

/* The CPU whose record is the next but that of the top; `cpu` itself: there is none. */
static unsigned int second(const struct ring_merge *merge, unsigned int cpu)
{
	const unsigned int *heap = merge->heap;

	if (merge->nr_heap < 2)
		return cpu;
	if (merge->nr_heap == 2 || merge->heads[heap[1]].tsc < merge->heads[heap[2]].tsc)
		return heap[1];
	if (merge->heads[heap[1]].tsc > merge->heads[heap[2]].tsc)
		return heap[2];
	return heap[1] < heap[2] ? heap[1] : heap[2];
}

/* Emit records of the CPU on top, as long as they are older than those of all others. */
static enum head_state emit_run(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit,
				void *arg, int *ret)
{
	const unsigned int cpu = merge->heap[0], other = second(merge, cpu);
	/* of equal stamps the lower CPU's comes first */
	const uint64_t next = other == cpu ? UINT64_MAX : merge->heads[other].tsc + (cpu < other);
	const uint64_t bound = next <= horizon ? next : horizon + (horizon != UINT64_MAX);
	struct ring *ring = merge->rings[cpu];
	struct ring_head *head = &merge->heads[cpu];
	enum head_state state;

	do {
		*ret = emit_to(ring, head, bound, cpu, emit, arg);
		if (*ret)
			return HEAD_UNUSUAL;
		clear_run(ring, head);
		state = look(ring, head, horizon);
	} while (state == HEAD_RECORD && head->tsc < bound);
	return state;
}

/* Find the first record of each ring. False: one is unusual. */
static bool find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	merge->nr_heap = 0;
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];
		enum head_state state;

		*head = (struct ring_head){.at = ring->consumed, .begin = ring->consumed};
		head->end = ring_snapshot(ring);
		state = look(ring, head, horizon);
		if (state == HEAD_RECORD)
			merge->heap[merge->nr_heap++] = cpu;
		usual &= state != HEAD_UNUSUAL;
	}
	ring_heap_build(merge);
	return usual;
}

/* No ring has a record that is older than what was emitted. */
static void end(struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		clear(merge->rings[cpu], &merge->heads[cpu]);
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

	while (state != HEAD_UNUSUAL && merge->nr_heap) {
		state = emit_run(merge, horizon, emit, arg, &ret);
		if (state == HEAD_END)
			merge->heap[0] = merge->heap[--merge->nr_heap];
		ring_heap_sift(merge, 0);
	}
	end(merge);
	return ret;
}
