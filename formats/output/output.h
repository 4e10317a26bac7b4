/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_OUTPUT_OUTPUT_H
#define SONDE_FORMATS_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Between the encoders of a trace and its disk. An encoder puts finished packets into a queue in
 * memory, and a thread writes them to the files: in order within a file, and whole. Encoders meet
 * the disk only where the queue is full.
 *
 * A packet that the disk refuses stays queued, and is tried again a few times per second. A flight
 * recorder tries it again with the next output_release(), and until then keeps the newest packets
 * as before.
 */
struct output;
struct output_stream;

/* Where the packets of a stream go. */
struct output_file {
	/*
	 * On the output's thread. Append one packet, which it may change. Returns 0, or -errno with
	 * the file as it was before, so that the same packet can be written again.
	 */
	int (*write)(struct output_file *file, void *packet, size_t size);
	/* On the output's thread. Give up what is not needed until the next write(). NULL: nothing.
	 */
	void (*rest)(struct output_file *file);
};

/* An output_file that is one file of the disk, with nothing in it but packets. */
struct packet_file {
	struct output_file base;
	int fd;        /* the caller's */
	uint64_t size; /* bytes: whole packets */
};
void packet_file_init(struct packet_file *file, int fd);
/* The `write` of such a file. */
int packet_file_write(struct output_file *file, void *packet, size_t size);

/* How many events packets hold, by the index of their class. */
enum { OUTPUT_MAX_CLASSES = 32 };
struct output_events {
	uint64_t n[OUTPUT_MAX_CLASSES];
};

/* Add the events to a sum; and of all classes together. */
void output_events_add(struct output_events *sum, const struct output_events *more);
uint64_t output_events_sum(const struct output_events *events);

struct output_config {
	/*
	 * Bytes that may be queued, over all streams. Beyond that each stream may have its equal
	 * share of it once more, so that a file that fails does not take the room of the others.
	 */
	size_t queue_bytes;
	/*
	 * Not 0: a flight recorder. Nothing is written until output_release(); each stream keeps
	 * its last packets, of this many bytes at most, and forgets older ones.
	 */
	size_t keep_bytes;
	/*
	 * On the output's thread: called twice a second, when output_prepare() asks for it, and
	 * before packets are written that were put after the last call. May put packets. Returns 0,
	 * or -errno: these packets must not be written now. The disk counts as refusing them with
	 * that error, until a later call returns 0. May be NULL.
	 */
	int (*before_writing)(void *arg);
	void *arg;
	/* Milliseconds without a sign of life of the disk from which on nothing waits for it; 0:
	 * OUTPUT_STALL_MS. Time in which this process was stopped does not count. */
	unsigned int stall_ms;
};

enum {
	OUTPUT_QUEUE_BYTES = 8 << 20,
	/*
	 * What encoders make their packets of. A CTF packet has tables, which large packets make
	 * cheap; a damaged byte costs a packet.
	 */
	OUTPUT_PACKET_MAX = 512 << 10,
	/* Less than the 20 s after which a guest's watchdog reports a vCPU that waits. */
	OUTPUT_STALL_MS = 10000,
};

/* Starts the thread, with all signals blocked. Returns 0 or -errno. */
int output_create(const struct output_config *config, struct output **out);
/* NULL-safe. Ends the thread; what is queued is not written. Frees the streams. */
void output_destroy(struct output *output);

/* Add a stream; `file` must outlive the output. Thread-safe. Returns 0 or -ENOMEM. */
int output_add(struct output *output, struct output_file *file, struct output_stream **out);

/* The stream has no more events for now: its file rests when what is queued has been written. Until
 * events are put again. */
void output_rest(struct output_stream *stream);

/* Memory for a packet of up to `capacity` bytes, 16-byte aligned; NULL without memory. */
void *output_packet_new(size_t capacity);
/* NULL-safe. */
void output_packet_free(void *packet);

/*
 * Queue a packet, made in memory of output_packet_new(), which is the output's if this returns 0.
 * Calls on one stream do not overlap. Waits for nothing. Returns 0, or
 *  -EAGAIN  the queue is full, as the disk is too slow
 *  -errno   the queue is full, as the disk refuses this stream's packets with that error
 */
int output_put(struct output_stream *stream, void *packet, size_t size,
	       const struct output_events *events);

/* What output_put() would return for a packet of this size now: before the packet is made. A flight
 * recorder makes room for it. */
int output_room(struct output_stream *stream, size_t size);

/*
 * After -EAGAIN: wait until the stream may take a packet of this size, or its file fails. Returns
 * 0; -ETIMEDOUT if the disk shows no sign of life for the output's stall_ms, or for patience_ms if
 * that is less.
 */
int output_wait(struct output_stream *stream, size_t size);
int output_wait_briefly(struct output_stream *stream, size_t size, unsigned int patience_ms);

/*
 * Wait until all that is queued by now has been written, or was tried once more. Returns 0, the
 * first -errno of what is still queued, or -ETIMEDOUT as above. A flight recorder waits only for
 * what was released.
 */
int output_sync(struct output *output);
/* The same without more patience than that. */
int output_sync_briefly(struct output *output, unsigned int patience_ms);

/* Have before_writing() called as soon as the disk has answered for the packet that it has. Waits
 * for nothing. */
void output_prepare(struct output *output);

/* -errno of the last try to write a stream's oldest packet; 0: it was not refused. */
int output_failed(const struct output_stream *stream);

/*
 * Become a flight recorder that keeps this many bytes (output_config.keep_bytes), before the first
 * packet; or 0: write all that is kept, and all that comes.
 */
void output_keep(struct output *output, size_t bytes);

/* A flight recorder writes all that it keeps now, and then keeps packets as before. */
void output_release(struct output *output);

/*
 * No packet is written from output_hold() to output_resume(), by the same thread: for files beside
 * them that give up room on a full disk, and need it back. output_hold() waits for the packet that
 * the disk has.
 */
void output_hold(struct output *output);
void output_resume(struct output *output);

/* Forget what is queued. Adds to *events what it held. Returns the number of packets. */
uint64_t output_discard(struct output_stream *stream, struct output_events *events);

/* What a flight recorder has forgotten of a stream. */
struct output_events output_forgotten(const struct output_stream *stream);

/* Monotonic time at which the disk was given the packet that it has not answered for yet; 0: none.
 */
uint64_t output_writing_since(const struct output *output);

/* Since creation. */
struct output_counts {
	uint64_t written_bytes; /* of packets, in files */
	uint64_t queued_bytes;  /* now */
	uint64_t kept_bytes;    /* of these, what a flight recorder keeps */
	uint64_t waits;         /* how often the queue was full, as the disk was too slow */
	uint64_t wait_ns;       /* how long, in all */
};
struct output_counts output_counts(struct output *output);

#endif
