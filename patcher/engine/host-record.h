/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_HOST_RECORD_H
#define SONDE_PATCHER_ENGINE_HOST_RECORD_H

#include "formats/base/error.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/ring.h"

/*
 * What traps see while trampolines write rings: each vCPU's thread writes it into a ring of its
 * own, in memory that the guest does not know, so that the merge puts both in order.
 */
enum {
	TRAP_RECORD_WORDS = 13, /* ahead of stack and items, which are the record's items */
	TRAP_RECORD_SHAPES = POINT_RETURN + 1,
};
#define TRAP_RECORD_NO_REF UINT32_MAX

/* For ring_config.shapes, by enum probe_point, TRAP_RECORD_SHAPES of them. */
extern const struct ring_shape trap_record_shapes[TRAP_RECORD_SHAPES];

/* How many items fit besides the stack that a hit has. */
size_t trap_record_max_items(const struct probe_hit *hit);

/* A hit whose record is as large as this, in bytes. */
uint32_t trap_record_size(const struct probe_hit *hit);

/* Fill in all but the time and commit word; publish with ring_commit(point). */
void trap_record_fill(struct ring_record *record, uint32_t ref, const struct probe_hit *hit);

/* The hit's stack and items point into the record. */
void trap_record_read(const struct ring_record *record, enum probe_point *point, uint32_t *ref,
		      struct probe_hit *hit);

#endif
