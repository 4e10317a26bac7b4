/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_INTERNAL_H
#define SONDE_PATCHER_RING_INTERNAL_H

#include "patcher/ring/ring.h"

/* The steps of a pass (ring.c), for records that go through the queue and for direct ones. */

static inline uint32_t ring_offset_of(const struct ring *ring, uint64_t position)
{
	return (uint32_t)position & (ring->config.data_bytes - 1);
}

/* How many items a record says that it has, of a shape that may have some; read once. */
static inline uint32_t ring_read_items(const struct ring_shape *shape, const void *record)
{
	const size_t at = shape->items_at ? shape->items_at : offsetof(struct ring_record, items);
	const uint32_t *said = (const void *)((const uint8_t *)record + at);

	return __atomic_load_n(said, __ATOMIC_RELAXED);
}

/* The latest stamp that a pass takes. */
static inline uint64_t ring_horizon(const struct ring_clock *clock)
{
	return clock->tsc > clock->margin ? clock->tsc - clock->margin : 0;
}

/* Give the guest all room there is, or none if the ring is dead. */
void ring_publish_limit(struct ring *ring);
/* The end of what is reserved. An impossible value makes the ring dead. */
uint64_t ring_snapshot(struct ring *ring);
/* A record from after the pass began is left for the next pass, which is later than it. */
bool ring_is_later(struct ring *ring, uint64_t position, uint64_t tsc,
		   const struct ring_clock *clock);
/* The stamp, between the ring's floor and the horizon. */
uint64_t ring_clamp(struct ring *ring, uint64_t tsc, uint64_t horizon);
/* Whether the next record, which is not committed, is given up. */
bool ring_is_stalled(struct ring *ring, const struct ring_clock *clock);
/* Records that were emitted. */
void ring_zero(uint8_t *at, size_t bytes);
/* All up to `end` is lost. */
void ring_skip_to(struct ring *ring, uint64_t end);

/* --- straight.c ------------------------------------------------------------------------------- */

/*
 * Emit records straight from the rings, without a queue between, in order, up to the horizon or to
 * the first one that is unusual: something for ring_consume().
 */
void ring_merge_straight(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit, void *arg);

/* --- the order of a merge: an array, as the next record is mostly among the first few. Behind the
 * last CPU is a place with RING_NO_STAMP ---------------------------------------------------------
 */

/* Later than that of any record. */
#define RING_NO_STAMP UINT64_MAX

/* Of equal stamps the lower CPU's comes first. */
static inline bool ring_place_is_older(const struct ring_place *a, const struct ring_place *b)
{
	return a->tsc < b->tsc || (a->tsc == b->tsc && a->cpu < b->cpu);
}

/* From which stamp on the first CPU's records do not come before those of all others. */
static inline uint64_t ring_order_before(const struct ring_merge *merge)
{
	const struct ring_place *second = &merge->order[1];

	return second->tsc + (merge->order[0].cpu < second->cpu);
}

/* The first CPU's stamp is a later one: put it where it belongs. */
static inline void ring_order_settle(struct ring_merge *merge)
{
	const struct ring_place moved = merge->order[0];
	struct ring_place *place = merge->order;

	for (; ring_place_is_older(&place[1], &moved); place++)
		place[0] = place[1];
	*place = moved;
}

/* No CPU has a record. */
void ring_order_clear(struct ring_merge *merge);
/* Add a CPU with a record of this stamp. */
void ring_order_add(struct ring_merge *merge, unsigned int cpu, uint64_t tsc);
/* The first CPU has no more. */
void ring_order_drop(struct ring_merge *merge);

/* Give the room back to the guest. The pass began at position `before`. */
void ring_end_pass(struct ring *ring, uint64_t before);

#endif
