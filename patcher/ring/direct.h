/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_DIRECT_H
#define SONDE_PATCHER_RING_DIRECT_H

#include "introspect/guest/clock.h"
#include "patcher/ring/ring.h"

enum {
	DIRECT_BATCH = 128,
	DIRECT_MIXED = -1,     /* instead of an id */
	DIRECT_MIXED_IDS = 32, /* records of higher ids are not mixed */
};

/*
 * Records behind each other in the guest's memory, and what was read of each: its time, and the
 * address of its site (whatever stood there at a return, whose record has none). They are of one
 * id, or mixed. The memory may change meanwhile: only the fields behind struct direct_record are to
 * be read, each once.
 */
struct direct_run {
	uint32_t id;   /* has a shape; or DIRECT_MIXED */
	uint32_t size; /* bytes from one record to the next, items included; mixed: 0 */
	size_t n;      /* at least 1; 1 if its records may have items; mixed: at least 2 */
	const uint8_t *first;
	int64_t *ns;
	uint64_t *ip;
	/* Mixed records have no items. */
	uint32_t mask;            /* bits of their ids */
	const uint8_t *ids;       /* of each */
	const uint8_t *const *at; /* where each begins */
};

/* Some records of a ring, in their order. The times never go back, from one batch to the next
 * neither. */
struct direct_batch {
	size_t n, nr_runs;
	int64_t ns[DIRECT_BATCH];
	uint64_t ip[DIRECT_BATCH];
	uint8_t ids[DIRECT_BATCH];       /* of mixed ones */
	const uint8_t *at[DIRECT_BATCH]; /* likewise */
	struct direct_run runs[DIRECT_BATCH];
};

/* Takes a batch of at least one record, which is its own during the call. */
typedef void direct_emit_fn(void *arg, struct direct_batch *batch);

/* A pass over a ring of direct records (layout.h): those that ring_consume() would take are emitted
 * at once, without a queue. `quick` is the clock of their stamps. */
void ring_consume_direct(struct ring *ring, const struct ring_clock *clock,
			 const struct tsc_quick_clock *quick, direct_emit_fn *emit, void *arg);

#endif
