/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_MERGE_H
#define SONDE_PATCHER_RING_MERGE_H

#include "patcher/ring/ring.h"

enum { RING_MERGE_MAX = 128 };

/*
 * The records of all CPUs in one order, that of their time stamps.
 *
 * A pass takes what it can from every ring and hands on what is not later than the smallest of the
 * rings' watermarks: nothing older can come any more. The rest waits in the rings' queues, which do
 * not grow: behind a full queue records stay in their ring, which then fills, so that its writer
 * blocks or drops. That ends by itself: if a full queue's ring has the smallest watermark, the
 * whole queue is handed on; if a ring with an uncommitted record has it, its time is limited.
 */
struct ring_merge {
	struct ring *rings[RING_MERGE_MAX]; /* by CPU */
	unsigned int nr_rings;
	uint64_t tsc;                      /* the latest that any pass was given */
	uint64_t watermark;                /* everything up to it was handed on */
	unsigned int heap[RING_MERGE_MAX]; /* CPUs with records, the oldest record on top */
	unsigned int nr_heap;
};

/* `rings` must outlive the merge. -EINVAL for more than RING_MERGE_MAX, or none. */
int ring_merge_init(struct ring_merge *merge, struct ring *rings, unsigned int nr_rings,
		    struct error *err);

/* A record that is the host's own, valid during the call. Negative errno: it is handed on again in
 * the next pass. Of records with equal stamps the lower CPU's come first. */
typedef int ring_emit_fn(void *arg, unsigned int cpu, const struct ring_record *record);

/*
 * One pass over all rings. Returns 0, or what `emit` failed with. Time stamps never go back from
 * one call of `emit` to the next, in this pass or over several. A clock that goes back stands
 * still.
 *
 * With margin 0 and stall_ns 0, and all rings closed, one of any two passes hands on a record or
 * takes one out of a ring, until all are drained: what is not committed is skipped, what is later
 * than one pass is taken by the next, and of the full queues one is emptied.
 */
int ring_merge_pass(struct ring_merge *merge, const struct ring_clock *clock, ring_emit_fn *emit,
		    void *arg);

#endif
