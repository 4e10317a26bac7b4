/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/straight.h"

#include <stddef.h>
#include <string.h>

enum {
	GIVE_BYTES = 65536, /* that the guest gets back at a time */
	AHEAD_BYTES = 1536, /* where the last record that is read ahead begins, at most; see DESIGN.md */
};

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

/* What limits the records that are read ahead, but for the stamp of the one before. */
struct bounds {
	const struct ring_shape *shapes;
	size_t nr_shapes;
	const uint8_t *end; /* of what is reserved, which may be in the tail */
	uint64_t horizon;
};

/* Look at the record at `at`, behind one with the stamp `floor`. Its header is read once, and then
 * believed. *size: its bytes. */
static inline enum ring_head_state look(const struct bounds *bounds, const uint8_t *at,
					uint64_t floor, struct ring_taken *out, size_t *size)
{
	const struct ring_record *record = (const void *)at;
	/* beyond all ids if it is not committed */
	const uint32_t id = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE) ^ RING_COMMITTED;
	const struct ring_shape *shape = &bounds->shapes[id];
	uint32_t items = 0;
	uint64_t tsc;

	if (id >= bounds->nr_shapes)
		return RING_HEAD_UNUSUAL;
	*size = shape->size;
	if (shape->items) {
		items = __atomic_load_n(&record->items, __ATOMIC_RELAXED);
		if (items > shape->items)
			return RING_HEAD_UNUSUAL;
		*size += items * sizeof(uint64_t);
	}
	/* there are none of size 0 */
	if (*size - 1 >= (size_t)(bounds->end - at))
		return RING_HEAD_UNUSUAL;
	tsc = __atomic_load_n(&record->tsc, __ATOMIC_RELAXED);
	if (tsc > bounds->horizon)
		return RING_HEAD_END;
	if (tsc < floor)
		return RING_HEAD_UNUSUAL;
	out->id = id;
	out->items = items;
	out->tsc = tsc;
	out->fields = record->fields;
	return RING_HEAD_RECORD;
}

enum ring_head_state ring_read_ahead(struct ring *ring, struct ring_head *head, uint64_t horizon)
{
	struct bounds bounds = {ring->config.shapes, ring->config.nr_shapes, NULL, horizon};
	enum ring_head_state state = RING_HEAD_RECORD;
	struct ring_taken *next = head->ahead;
	const uint8_t *stop;
	uint32_t offset;
	uint64_t floor;
	size_t left, ahead, size;
	uint8_t *at;

	pass_emitted(ring, head);
	offset = ring_offset_of(ring, ring->consumed);
	floor = ring->floor;
	left = head->stop - ring->consumed;
	ahead = ring->config.data_bytes - offset;
	ahead = ahead < AHEAD_BYTES ? ahead : AHEAD_BYTES;
	at = ring->data + offset;
	bounds.end = at + left;
	stop = at + (ahead < left ? ahead : left);
	head->begin = at;
	for (; next < head->ahead + RING_AHEAD && at < stop; next++) {
		state = look(&bounds, at, floor, next, &size);
		if (state != RING_HEAD_RECORD)
			break;
		floor = next->tsc;
		at += size;
	}
	head->next = head->ahead;
	head->end = next;
	head->behind = at;
	if (next != head->ahead)
		return RING_HEAD_RECORD;
	return at < bounds.end ? state : RING_HEAD_END;
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
