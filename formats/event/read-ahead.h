/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_READ_AHEAD_H
#define SONDE_FORMATS_EVENT_READ_AHEAD_H

#include <stddef.h>
#include "formats/event/kmem.h"
#include "formats/event/record-stream.h"

/*
 * Decodes streams in batches before their events are taken, on threads of its own or on the
 * caller's. The number of streams bounds its memory. One thread takes batches. A batch ends where
 * its stream has something to say besides events.
 */
struct read_ahead;

/* Events of a stream that follow each other. */
struct stream_batch {
	const struct record_stream *state; /* as behind the first event, but for the offset */
	struct stream_note *notes;         /* before it; the caller's */
	int result;                        /* 1; 0 or -ENOMEM: the stream has ended */
	const struct stream_event *events;
	const uint8_t *bytes;
	const struct kmem_brief *briefs; /* instead of events and bytes; or NULL */
	size_t n;                        /* at least 1 if result is 1 */
};

/*
 * The streams stay the caller's, and must not be used until destroy. No thread: batches are decoded
 * when they are asked for. Fewer threads than asked for is no error. Of `brief`, an instance of
 * kmem (NULL: of none), the batches are of briefs where these have all of the events. -ENOMEM.
 */
int read_ahead_create(struct record_stream *const *streams, size_t n, unsigned int nr_threads,
		      const struct trace_instance *brief, struct read_ahead **out);
/* NULL-safe. */
void read_ahead_destroy(struct read_ahead *ahead);

/* The next batch of stream i. It is valid until the stream's next one; at the end it is the last
 * one again, without notes. */
void read_ahead_next(struct read_ahead *ahead, size_t i, struct stream_batch *out);

#endif
