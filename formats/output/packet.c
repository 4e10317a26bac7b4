/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets: in memory, in a queue, in a file. */
#include "formats/output/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "formats/base/fs.h"

struct packet *packet_of(void *bytes)
{
	return (struct packet *)(void *)((uint8_t *)bytes - offsetof(struct packet, bytes));
}

void *output_packet_new(size_t capacity)
{
	struct packet *packet = malloc(sizeof(*packet) + capacity);

	return packet ? packet->bytes : NULL;
}

void output_packet_free(void *packet)
{
	if (packet)
		free(packet_of(packet));
}

struct packet *packet_shrink(struct packet *packet)
{
	struct packet *smaller = realloc(packet, sizeof(*packet) + packet->size);

	return smaller ? smaller : packet;
}

void packet_queue_init(struct packet_queue *queue)
{
	*queue = (struct packet_queue){.tail = &queue->head};
}

void packet_queue_append(struct packet_queue *queue, struct packet *packet)
{
	*queue->tail = packet;
	queue->tail = &packet->next;
	queue->bytes += packet->size;
}

size_t packet_queue_drop_head(struct packet_queue *queue)
{
	struct packet *packet = queue->head;
	const size_t size = packet->size;

	queue->head = packet->next;
	if (!queue->head)
		queue->tail = &queue->head;
	queue->bytes -= size;
	free(packet);
	return size;
}

void output_events_add(struct output_events *sum, const struct output_events *more)
{
	for (unsigned int i = 0; i < OUTPUT_MAX_CLASSES; i++)
		sum->n[i] += more->n[i];
}

uint64_t output_events_sum(const struct output_events *events)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < OUTPUT_MAX_CLASSES; i++)
		sum += events->n[i];
	return sum;
}

int packet_file_write(struct output_file *base, void *packet, size_t size)
{
	struct packet_file *file = (struct packet_file *)base;
	size_t done;
	int ret = file_write_at(file->fd, packet, size, file->size, &done);

	if (!ret)
		file->size += size;
	else if (done && ftruncate(file->fd, (off_t)file->size))
		ret = -errno;
	return ret;
}

void packet_file_init(struct packet_file *file, int fd)
{
	*file = (struct packet_file){.base.write = packet_file_write, .fd = fd};
}
