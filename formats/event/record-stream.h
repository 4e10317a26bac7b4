/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_RECORD_STREAM_H
#define SONDE_FORMATS_EVENT_RECORD_STREAM_H

#include <stdint.h>
#include "formats/base/byte-source.h"
#include "formats/event/kmem.h"

/*
 * Decodes one vCPU's records, one after the other, through a buffer of fixed size. Nothing in
 * the data is trusted. Each encoding implements this: embed struct record_stream at the start of
 * a structure, and have next() keep the members below up to date.
 */
enum { TRACE_MAX_STREAMS = 4096 }; /* of a trace */

enum record_fault {
	RECORD_FAULT_NONE = 0,
	RECORD_FAULT_TRUNCATED, /* the file ends within a record or packet */
	RECORD_FAULT_SIZE, /* a record claims to be shorter than possible; the rest is unreadable */
	RECORD_FAULT_PACKET, /* a packet's header is wrong; the rest is unreadable */
	RECORD_FAULT_EVENT,  /* an event is not of this format; the rest is unreadable */
};

struct trace_event {
	const struct event_class *class; /* of the record; NULL for a whole stream */
	struct kmem_record record;
	unsigned int vcpu;
	uint64_t index;  /* of the record in its stream, from 0 */
	uint64_t offset; /* bytes */
};

struct record_stream;
struct record_stream_ops {
	int (*next)(struct record_stream *stream, struct trace_event *event);
	void (*destroy)(struct record_stream *stream);
};

struct record_stream {
	const struct record_stream_ops *ops;
	struct byte_source records;
	unsigned int vcpu;
	enum record_fault fault;
	uint64_t offset, index; /* of the next record, or of the end or the fault */
	uint64_t lost;          /* records that the stream itself says were lost, so far */
};

/*
 * Read the next record. Returns 1; 0 at the end of what can be read, where stream->fault says
 * whether that is the end of the data; -errno if reading fails at stream->offset.
 */
int record_stream_next(struct record_stream *stream, struct trace_event *event);

/* NULL-safe. */
void record_stream_destroy(struct record_stream *stream);

/* For implementations: note the fault, and end the stream with it. Returns 0. */
int record_stream_stop(struct record_stream *stream, enum record_fault fault);

/* For implementations: hand out the record in *event, and step over its `size` bytes. Returns 1. */
int record_stream_take(struct record_stream *stream, struct trace_event *event, uint64_t size);

#endif
