/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/ring/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ring_queue_init(struct ring_queue *queue, size_t capacity, struct error *err)
{
	*queue = (struct ring_queue){.capacity = capacity};
	if (capacity < RING_MAX_RECORD)
		return error_set(err, EINVAL, "a queue of %zu bytes holds no record", capacity);
	queue->bytes = malloc(capacity);
	return queue->bytes ? 0 : error_set(err, ENOMEM, "out of memory");
}

void ring_queue_deinit(struct ring_queue *queue)
{
	free(queue->bytes);
	*queue = (struct ring_queue){0};
}

/* Records move at most once between two pops: afterwards the free bytes are all behind them. */
struct ring_record *ring_queue_room(struct ring_queue *queue, size_t size)
{
	size_t used = queue->tail - queue->head;

	if (size > queue->capacity - used)
		return NULL;
	if (size > queue->capacity - queue->tail) {
		memmove(queue->bytes, queue->bytes + queue->head, used);
		queue->head = 0;
		queue->tail = used;
	}
	return (struct ring_record *)(void *)(queue->bytes + queue->tail);
}

void ring_queue_push(struct ring_queue *queue, size_t size)
{
	queue->tail += size;
}

const struct ring_record *ring_queue_first(const struct ring_queue *queue)
{
	if (queue->head == queue->tail)
		return NULL;
	return (const struct ring_record *)(const void *)(queue->bytes + queue->head);
}

void ring_queue_pop(struct ring_queue *queue)
{
	struct ring_commit commit;

	ring_commit_decode(ring_queue_first(queue)->commit, &commit);
	queue->head += commit.size;
	if (queue->head == queue->tail)
		queue->head = queue->tail = 0;
}
