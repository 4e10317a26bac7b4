/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/internal.h"

#include <errno.h>

int ring_merge_init(struct ring_merge *merge, struct ring *rings, unsigned int nr_rings,
		    struct error *err)
{
	*merge = (struct ring_merge){.nr_rings = nr_rings};
	if (!nr_rings || nr_rings > RING_MERGE_MAX)
		return error_set(err, EINVAL, "%u rings cannot be merged", nr_rings);
	for (unsigned int cpu = 0; cpu < nr_rings; cpu++)
		merge->rings[cpu] = &rings[cpu];
	return 0;
}

static const struct ring_record *oldest(const struct ring_merge *merge, unsigned int cpu)
{
	return ring_first(merge->rings[cpu]);
}

static bool is_before(const struct ring_merge *merge, unsigned int a, unsigned int b)
{
	uint64_t tsc_a = merge->heads[a].tsc, tsc_b = merge->heads[b].tsc;

	return tsc_a < tsc_b || (tsc_a == tsc_b && a < b);
}

void ring_heap_sift(struct ring_merge *merge, unsigned int i)
{
	unsigned int *heap = merge->heap;

	for (;;) {
		unsigned int first = i, moved = heap[i];

		for (unsigned int child = 2 * i + 1; child <= 2 * i + 2; child++)
			if (child < merge->nr_heap && is_before(merge, heap[child], heap[first]))
				first = child;
		if (first == i)
			return;
		heap[i] = heap[first];
		heap[first] = moved;
		i = first;
	}
}

void ring_heap_build(struct ring_merge *merge)
{
	for (unsigned int i = merge->nr_heap / 2; i-- > 0;)
		ring_heap_sift(merge, i);
}

static void build_heap(struct ring_merge *merge)
{
	merge->nr_heap = 0;
	for (unsigned int cpu = 0; cpu < merge->nr_rings; cpu++) {
		const struct ring_record *record = oldest(merge, cpu);

		if (!record)
			continue;
		merge->heads[cpu].tsc = record->tsc;
		merge->heap[merge->nr_heap++] = cpu;
	}
	ring_heap_build(merge);
}

/* The record on top of the heap was emitted. */
static void advance(struct ring_merge *merge)
{
	unsigned int cpu = merge->heap[0];
	const struct ring_record *next;

	ring_pop(merge->rings[cpu]);
	next = oldest(merge, cpu);
	if (next)
		merge->heads[cpu].tsc = next->tsc;
	else
		merge->heap[0] = merge->heap[--merge->nr_heap];
	if (merge->nr_heap > 1)
		ring_heap_sift(merge, 0);
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

int ring_merge_pass(struct ring_merge *merge, const struct ring_clock *clock, ring_emit_fn *emit,
		    void *arg)
{
	struct ring_clock monotonic = *clock;
	int ret = 0;

	if (merge->tsc < clock->tsc)
		merge->tsc = clock->tsc;
	monotonic.tsc = merge->tsc;
	if (!has_queued(merge))
		ret = ring_merge_straight(merge, ring_horizon(&monotonic), emit, arg);
	if (ret)
		return ret;
	consume_all(merge, &monotonic);
	build_heap(merge);
	while (merge->nr_heap) {
		unsigned int cpu = merge->heap[0];
		const struct ring_taken taken = ring_take(oldest(merge, cpu));

		if (taken.tsc > merge->watermark)
			break;
		ret = emit(arg, cpu, &taken);
		if (ret)
			return ret;
		advance(merge);
	}
	return 0;
}
