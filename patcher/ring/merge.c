/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int ring_merge_init(struct ring_merge *merge, struct ring *rings, unsigned int nr_rings,
		    const struct ring_stacks *stacks, struct error *err)
{
	/* of the heads, all but their numbers is made anew in each pass */
	memset(merge, 0, offsetof(struct ring_merge, heads));
	merge->nr_rings = nr_rings;
	merge->stacks = stacks;
	if (!nr_rings || nr_rings > RING_MERGE_MAX)
		return error_set(err, EINVAL, "%u rings cannot be merged", nr_rings);
	for (unsigned int cpu = 0; cpu < nr_rings; cpu++) {
		merge->rings[cpu] = &rings[cpu];
		for (unsigned int i = 0; i < RING_AHEAD; i++)
			merge->heads[cpu].ahead[i].ring = (uint16_t)cpu;
	}
	return 0;
}

static const struct ring_record *oldest(const struct ring_merge *merge, unsigned int cpu)
{
	return ring_first(merge->rings[cpu]);
}

void ring_order_clear(struct ring_merge *merge)
{
	merge->nr_order = 0;
	merge->order[0] = (struct ring_place){RING_NO_STAMP, 0};
}

void ring_order_add(struct ring_merge *merge, unsigned int cpu, uint64_t tsc)
{
	merge->nr_order++;
	memmove(&merge->order[1], &merge->order[0], merge->nr_order * sizeof(merge->order[0]));
	merge->order[0] = (struct ring_place){tsc, cpu};
	ring_order_settle(merge);
}

void ring_order_drop(struct ring_merge *merge)
{
	memmove(&merge->order[0], &merge->order[1], merge->nr_order * sizeof(merge->order[0]));
	merge->nr_order--;
}

static void make_order(struct ring_merge *merge)
{
	ring_order_clear(merge);
	for (unsigned int cpu = merge->nr_rings; cpu-- > 0;) {
		const struct ring_record *record = oldest(merge, cpu);

		if (record)
			ring_order_add(merge, cpu, record->tsc);
	}
}

/* The first record of the order was emitted. */
static void advance(struct ring_merge *merge)
{
	unsigned int cpu = merge->order[0].cpu;
	const struct ring_record *next;

	ring_pop(merge->rings[cpu]);
	next = oldest(merge, cpu);
	if (!next) {
		ring_order_drop(merge);
		return;
	}
	merge->order[0].tsc = next->tsc;
	ring_order_settle(merge);
}

static bool has_queued(const struct ring_merge *merge)
{
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		if (oldest(merge, cpu))
			return true;
	return false;
}

/* Empty the rings into their queues, and find out up to which stamp no more record can come. */
static void consume_all(struct ring_merge *merge, const struct ring_clock *clock)
{
	uint64_t watermark = UINT64_MAX;

	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		uint64_t own = ring_consume(merge->rings[cpu], clock);

		if (own < watermark)
			watermark = own;
	}
	if (merge->watermark < watermark)
		merge->watermark = watermark;
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++)
		ring_raise_floor(merge->rings[cpu], merge->watermark);
}

static void emit_queued(struct ring_merge *merge, const struct ring_clock *clock,
			ring_emit_fn *emit, void *arg)
{
	consume_all(merge, clock);
	make_order(merge);
	while (merge->nr_order) {
		unsigned int cpu = merge->order[0].cpu;
		struct ring_taken taken = ring_take(oldest(merge, cpu));

		if (taken.tsc > merge->watermark)
			break;
		taken.ring = (uint16_t)cpu;
		emit(arg, &taken, 1);
		advance(merge);
	}
}

void ring_merge_pass(struct ring_merge *merge, const struct ring_clock *clock, ring_emit_fn *emit,
		     void *arg)
{
	struct ring_clock monotonic = *clock;

	if (merge->tsc < clock->tsc)
		merge->tsc = clock->tsc;
	monotonic.tsc = merge->tsc < RING_NO_STAMP ? merge->tsc : RING_NO_STAMP - 1;
	if (!has_queued(merge))
		ring_merge_straight(merge, ring_horizon(&monotonic), emit, arg);
	emit_queued(merge, &monotonic, emit, arg);
}
