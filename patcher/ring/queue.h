/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_RING_QUEUE_H
#define SONDE_PATCHER_RING_QUEUE_H

#include <stddef.h>
#include "formats/base/error.h"
#include "patcher/ring/layout.h"

/*
 * The host's own copies of a ring's records, oldest first, in memory of a fixed size. Nothing in
 * here can be changed by the guest: the sizes in the commit words were validated before.
 */
struct ring_queue {
	uint8_t *bytes;
	size_t capacity;
	size_t head, tail; /* offsets of the oldest record and behind the newest */
};

/* `capacity` is in bytes, at least RING_MAX_RECORD (else -EINVAL). -ENOMEM. */
int ring_queue_init(struct ring_queue *queue, size_t capacity, struct error *err);
void ring_queue_deinit(struct ring_queue *queue);

/* Room for a record of `size` bytes behind the newest, NULL if there is none. Invalidates what
 * ring_queue_first() gave; the record is in the queue after ring_queue_push() of the same size. */
struct ring_record *ring_queue_room(struct ring_queue *queue, size_t size);
void ring_queue_push(struct ring_queue *queue, size_t size);

/* The oldest record, valid until the next call of ring_queue_room(); NULL if there is none. */
const struct ring_record *ring_queue_first(const struct ring_queue *queue);

/* Drop the oldest record, which must exist. */
void ring_queue_pop(struct ring_queue *queue);

#endif
