/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_OUTPUT_INTERNAL_H
#define SONDE_FORMATS_OUTPUT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include "formats/base/clock.h"
#include "formats/output/output.h"

/* output.c: the queue, and those who fill it; disk.c: the thread that empties it; packet.c:
 * packets.
 */
static const uint64_t ns_per_ms = 1000000;

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

struct output_stream {
	struct output *output;
	struct output_stream *next;
	struct output_file *file;
	struct packet_queue queue;
	bool writing;         /* the thread uses the file, without the lock */
	bool resting;         /* no more events for now */
	bool rested;          /* its file was told, since the last write */
	uint64_t released;    /* a flight recorder writes packets below this number */
	int failed;           /* -errno of the last try to write the head, or 0 */
	uint64_t tried_ns;    /* when that was */
	uint64_t tried_round; /* the round of output_sync() that it belonged to */
	struct output_events forgotten;
};

struct output {
	struct output_config config;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_mutex_t disk;    /* held while a packet is written; inside of no other */
	pthread_cond_t work;     /* for the thread */
	pthread_cond_t progress; /* for those who wait for the disk */
	bool ending;
	struct output_stream *streams;
	size_t nr_streams;
	uint64_t next_number; /* of the next packet that is put */
	uint64_t prepared;    /* before_writing() was called after all packets below this number */
	uint64_t round;       /* of output_sync() */
	uint64_t round_ns;    /* when before_writing() returned last */
	bool asked;           /* for before_writing(), by output_prepare() */
	int refused;          /* -errno of the last before_writing(), or 0 */
	uint64_t refused_round;         /* the round of output_sync() that it belonged to */
	_Atomic uint64_t writing_since; /* the disk has a packet; 0: it has none */
	uint64_t silent_ns;  /* without a sign of life of the disk, as threads saw it pass */
	uint64_t looked_ns;  /* up to when silent_ns counts */
	uint64_t full_since; /* 0: the queue is not full */
	size_t queued;
	struct output_counts counts;
};

/* The thread. */
void *output_write_all(void *output);

/* --- with the lock held ---------------------------------------------------------------------- */

static inline void drop_head(struct output_stream *stream)
{
	stream->output->queued -= packet_queue_drop_head(&stream->queue);
}

static inline bool is_flight_recorder(const struct output *output)
{
	return output->config.keep_bytes;
}

/* Whether the oldest packet is to be written, and not only kept; there is one. */
static inline bool is_head_released(const struct output_stream *stream)
{
	return !is_flight_recorder(stream->output) || stream->queue.head->number < stream->released;
}

/* The disk took or refused a packet, or is idle. */
static inline void note_alive(struct output *output)
{
	output->silent_ns = 0;
	output->looked_ns = clock_monotonic_ns();
}

#endif
