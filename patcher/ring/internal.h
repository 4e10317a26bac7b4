/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_INTERNAL_H
#define SONDE_PATCHER_RING_INTERNAL_H

#include "patcher/ring/ring.h"

/* The steps of a pass (ring.c), for records that go through the queue and for direct ones. */

static inline uint32_t ring_offset_of(const struct ring *ring, uint64_t position)
{
	return (uint32_t)position & (ring->config.data_bytes - 1);
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
/* All up to `end` is lost. */
void ring_skip_to(struct ring *ring, uint64_t end);
/*
 * The first part of a merge's pass (straight.c), while no record waits in a queue: emit records
 * straight from the rings, in order, up to the horizon or to the first one that is unusual. Returns
 * 0, or what `emit` failed with.
 */
int ring_merge_straight(struct ring_merge *merge, uint64_t horizon, ring_emit_fn *emit, void *arg);

/* The heap of the merge (merge.c): restore the order below its top, by the stamps of heads[]; and
 * make a heap of what is in it. */
void ring_heap_sift(struct ring_merge *merge, unsigned int i);
void ring_heap_build(struct ring_merge *merge);

/* Give the room back to the guest. The pass began at position `before`. */
void ring_end_pass(struct ring *ring, uint64_t before);

#endif
