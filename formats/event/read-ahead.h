/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_READ_AHEAD_H
#define SONDE_FORMATS_EVENT_READ_AHEAD_H

#include <stddef.h>
#include "formats/event/record-stream.h"

/*
 * Decodes streams in batches before their events are taken, on threads of its own or on the
 * caller's. The number of streams bounds its memory. One thread takes events; at each of them it
 * sees the stream as after record_stream_next().
 */
struct read_ahead;

/* What is known of a stream at the event that was taken last. */
struct stream_head {
	struct event event;
	const struct record_stream *state; /* but for the next two: */
	uint64_t index, offset;            /* as in it, behind the event */
};

/*
 * The streams stay the caller's, and must not be used until destroy. No thread: batches are decoded
 * when they are asked for. Fewer threads than asked for is no error. -ENOMEM.
 */
int read_ahead_create(struct record_stream *const *streams, size_t n, unsigned int nr_threads,
		      struct read_ahead **out);
/* NULL-safe. */
void read_ahead_destroy(struct read_ahead *ahead);

/*
 * As record_stream_next() on stream i. What *head points at is valid until the stream's next call.
 * *notes are the caller's. -ENOMEM ends the stream.
 */
int read_ahead_next(struct read_ahead *ahead, size_t i, struct stream_head *head,
		    struct stream_note **notes);

/* An event that stream i will have soon, if one is at hand; else NULL. */
const struct event *read_ahead_soon(const struct read_ahead *ahead, size_t i);

#endif
