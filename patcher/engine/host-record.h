/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_HOST_RECORD_H
#define SONDE_PATCHER_ENGINE_HOST_RECORD_H

#include "formats/base/error.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/ring.h"

/*
 * Hits of traps while trampolines write rings. Each vCPU's thread writes them into a ring of its
 * own, in host memory, so that the merge puts both kinds in order.
 */
enum {
	TRAP_RECORD_WORDS = 19, /* ahead of stack, chain and items, which are the record's items */
	TRAP_RECORD_SHAPES = POINT_RETURN + 1,
};
#define TRAP_RECORD_NO_REF UINT32_MAX

/* For ring_config.shapes, by enum probe_point. */
extern const struct ring_shape trap_record_shapes[TRAP_RECORD_SHAPES];

/* How many items fit beside the hit's stack and chain. */
size_t trap_record_max_items(const struct probe_hit *hit);
/* How many words of a chain fit beside its stack and items. */
size_t trap_record_max_chain(const struct capture *capture);

/* Bytes of the hit's record. */
uint32_t trap_record_size(const struct probe_hit *hit);

/* Fill in all but time and commit word; then the caller publishes with ring_commit(point). */
void trap_record_fill(struct ring_record *record, uint32_t ref, const struct probe_hit *hit);

/* The reverse. The hit's stack, chain and items point into the record. */
void trap_record_read(const struct ring_taken *taken, enum probe_point *point, uint32_t *ref,
		      struct probe_hit *hit);

#endif
