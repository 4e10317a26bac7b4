/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_OUTPUT_PACKET_H
#define SONDE_FORMATS_OUTPUT_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include "formats/output/output.h"

/* A packet in memory. Encoders know its bytes only (output_packet_new()). */
struct packet {
	struct packet *next;
	uint64_t number; /* of the order in which packets were put, over all streams */
	size_t size;     /* of the bytes */
	struct output_events events;
	_Alignas(max_align_t) uint8_t bytes[];
};

/* The packet whose bytes output_packet_new() has returned. */
struct packet *packet_of(void *bytes);

/* Give back the memory beyond packet->size. Returns the packet, which may have moved; never NULL.
 */
struct packet *packet_shrink(struct packet *packet);

/* A FIFO, which owns its packets. Without a lock. */
struct packet_queue {
	struct packet *head, **tail; /* the oldest first */
	size_t bytes;
};

void packet_queue_init(struct packet_queue *queue);
void packet_queue_append(struct packet_queue *queue, struct packet *packet);
/* Remove and free the oldest packet; there is one. Returns its size in bytes. */
size_t packet_queue_drop_head(struct packet_queue *queue);

#endif
