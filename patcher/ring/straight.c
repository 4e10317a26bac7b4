/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/straight.h"

#include <stddef.h>
#include <string.h>

enum { GIVE_BYTES = 65536 /* that the guest gets back at a time */ };

/* Where the record begins that was not emitted yet. */
static uint8_t *first_left(const struct ring_head *head)
{
	if (head->next == head->end)
		return head->behind;
	return (uint8_t *)(uintptr_t)head->next->fields - offsetof(struct ring_record, fields);
}

/* What was emitted leaves the ring. Its memory is zeroed before the guest gets the room back. */
static void pass_emitted(struct ring *ring, struct ring_head *head)
{
	const size_t bytes = (size_t)(first_left(head) - head->begin);

	if (!bytes)
		return;
	memset(head->begin, 0, bytes);
	ring->consumed += bytes;
	ring->floor = head->next[-1].tsc;
	ring->counts.records += (uint64_t)(head->next - head->ahead);
	ring->moved = true;
	head->kept += bytes;
	if (head->kept < GIVE_BYTES)
		return;
	ring_publish_limit(ring);
	head->kept = 0;
}

/* Look at the record at `at`, behind one with the stamp `floor`. Its header is read once, and then
 * believed. *size: its bytes. */
static inline enum ring_head_state look(const struct ring *ring, const uint8_t *at, size_t left,
					uint64_t floor, uint64_t horizon, struct ring_taken *out,
					size_t *size)
{
	const struct ring_record *record = (const void *)at;
	const struct ring_shape *shape;

	/* beyond all ids if it is not committed */
	out->id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
	if (out->id >= ring->config.nr_shapes)
		return RING_HEAD_UNUSUAL;
	shape = &ring->config.shapes[out->id];
	*size = shape->size;
	out->items = 0;
	if (shape->items) {
		out->items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (out->items > shape->items)
			return RING_HEAD_UNUSUAL;
		*size += out->items * sizeof(uint64_t);
	}
	if (!shape->size || *size > left)
		return RING_HEAD_UNUSUAL;
	out->tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	out->fields = record->fields;
	if (out->tsc > horizon)
		return RING_HEAD_END;
	return out->tsc < floor ? RING_HEAD_UNUSUAL : RING_HEAD_RECORD;
}

enum ring_head_state ring_read_ahead(struct ring *ring, struct ring_head *head, uint64_t horizon)
{
	enum ring_head_state state = RING_HEAD_RECORD;
	struct ring_taken *next = head->ahead;
	uint32_t offset;
	uint64_t floor;
	size_t left, in_data, size;
	uint8_t *at;

	pass_emitted(ring, head);
	offset = ring_offset_of(ring, ring->consumed);
	floor = ring->floor;
	left = head->stop - ring->consumed;
	in_data = ring->config.data_bytes - offset;
	if (in_data > left)
		in_data = left;
	at = ring->data + offset;
	head->begin = at;
	for (; next < head->ahead + RING_AHEAD && at < head->begin + in_data; next++) {
		state = look(ring, at, left, floor, horizon, next, &size);
		if (state != RING_HEAD_RECORD)
			break;
		floor = next->tsc;
		left -= size;
		at += size;
	}
	head->next = head->ahead;
	head->end = next;
	head->behind = at;
	if (next != head->ahead)
		return RING_HEAD_RECORD;
	return left ? state : RING_HEAD_END;
}

bool ring_find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	ring_order_clear(merge);
	for (unsigned int cpu = merge->nr_rings; cpu-- > 0;) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];
		enum ring_head_state state;

		head->next = head->end = head->ahead;
		head->begin = head->behind = ring->data;
		head->stop = ring_snapshot(ring);
		head->kept = 0;
		state = ring_read_ahead(ring, head, horizon);
		if (state == RING_HEAD_RECORD)
			ring_order_add(merge, cpu, head->next->tsc);
		usual &= state != RING_HEAD_UNUSUAL;
	}
	return usual;
}

void ring_end_straight(struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		pass_emitted(merge->rings[cpu], &merge->heads[cpu]);
		if (merge->watermark < merge->rings[cpu]->floor)
			merge->watermark = merge->rings[cpu]->floor;
	}
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		ring_raise_floor(merge->rings[cpu], merge->watermark);
}
