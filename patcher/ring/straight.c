/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/straight.h"

enum { RUN_BYTES = 65536 /* that the guest gets back at a time */ };

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

void ring_end_run(struct ring *ring, struct ring_head *head)
{
	if (head->at == head->begin)
		return;
	ring->consumed = head->at;
	ring->counts.records += head->records;
	ring->moved = true;
	head->records = 0;
	begin_run(ring, head);
}

bool ring_find_heads(struct ring_merge *merge, uint64_t horizon)
{
	bool usual = true;

	merge->nr_order = 0;
	for (unsigned int cpu = merge->nr_rings; cpu-- > 0;) {
		struct ring *ring = merge->rings[cpu];
		struct ring_head *head = &merge->heads[cpu];
		enum ring_head_state state;

		*head = (struct ring_head){.at = ring->consumed, .end = ring_snapshot(ring)};
		begin_run(ring, head);
		state = ring_look(ring, head, horizon);
		if (state == RING_HEAD_RECORD)
			ring_order_add(merge, cpu, head->tsc);
		usual &= state != RING_HEAD_UNUSUAL;
	}
	return usual;
}

void ring_end_straight(struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		ring_end_run(merge->rings[cpu], &merge->heads[cpu]);
		if (merge->watermark < merge->rings[cpu]->floor)
			merge->watermark = merge->rings[cpu]->floor;
	}
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		ring_raise_floor(merge->rings[cpu], merge->watermark);
}
