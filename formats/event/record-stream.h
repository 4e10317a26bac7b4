/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_RECORD_STREAM_H
#define SONDE_FORMATS_EVENT_RECORD_STREAM_H

#include <stdint.h>
#include "formats/base/byte-source.h"
#include "formats/event/event.h"

/*
 * Decodes the events of one stream, one after the other. Nothing in the data is trusted. Each
 * encoding implements this: embed struct record_stream at the start of a structure, and have next()
 * keep the members below up to date.
 */
enum { TRACE_MAX_STREAMS = 4096 }; /* of a trace */

enum record_fault {
	RECORD_FAULT_NONE = 0,
	RECORD_FAULT_TRUNCATED, /* the file ends within a record or packet */
	RECORD_FAULT_SIZE, /* a record claims to be shorter than possible; the rest is unreadable */
	RECORD_FAULT_PACKET, /* a packet's header is wrong; the rest is unreadable */
	RECORD_FAULT_EVENT,  /* an event is not of this format; the rest is unreadable */
};

/* Bytes that were passed over, as they are damaged; behind them reading went on. */
struct stream_damage {
	uint64_t offset, size; /* bytes; size 0: a packet is missing at this place */
	uint64_t packet;       /* number of the packet that should be there, from 0 on */
};

enum { STREAM_DAMAGES_MAX = 16 }; /* that are listed */

/* An event of a stream, without what all of them have: a third of a struct event, as events are
 * handed from thread to thread. */
struct stream_event {
	int64_t ns;
	uint64_t end;    /* the stream's offset behind it */
	uint32_t at;     /* where its bytes are, in those of events that were decoded together */
	uint16_t class;  /* of the instance's */
	uint16_t length; /* bytes of the file */
};

static inline struct stream_event stream_event_of(const struct event *event, uint64_t end,
						  uint32_t at)
{
	return (struct stream_event){
		.ns = event->ns,
		.end = end,
		.at = at,
		.class = (uint16_t)(event->class - event->instance->classes),
		.length = (uint16_t)(end - event->offset),
	};
}

/* Where decoded events go; what is used of it is cut off. */
struct stream_room {
	struct stream_event *events;
	size_t n; /* of them */
	uint8_t *bytes;
	size_t size; /* of the bytes */
	uint32_t at; /* the place of the first byte, see struct stream_event */
};

static inline void stream_room_use(struct stream_room *room, size_t size)
{
	room->bytes += size;
	room->size -= size;
	room->at += (uint32_t)size;
}

/* The same for struct kmem_brief (kmem.h). */
struct kmem_brief;
struct brief_room {
	struct kmem_brief *briefs;
	size_t n;
};

struct record_stream;
struct record_stream_ops {
	/* Leaves vcpu, index and offset of the event to record_stream_take(). Its bytes are valid
	 * until the next call. */
	int (*next)(struct record_stream *stream, struct event *event);
	/*
	 * As next() again and again, for as many events as there is room for. It ends early where
	 * the next event might not fit, and where next() would say anything but an event. NULL:
	 * there is only next().
	 */
	void (*next_run)(struct record_stream *stream, struct stream_room *room);
	/* Likewise for events that are records of kmem, and that a brief has all of. NULL: there
	 * is none. */
	void (*next_briefs)(struct record_stream *stream, struct brief_room *room);
	/* The files may have grown. NULL: nothing to do but for `records`. */
	void (*resume)(struct record_stream *stream);
	void (*destroy)(struct record_stream *stream);
};

/*
 * What a stream says beside its events, before the one that record_stream_next() returns. The
 * reader of the stream takes the notes. In one piece of malloc().
 */
struct stream_note {
	struct stream_note *next;
};

struct record_stream {
	const struct record_stream_ops *ops;
	const struct trace_instance *instance; /* of its events */
	struct byte_source records;
	unsigned int vcpu;
	enum record_fault fault;
	uint64_t offset, index; /* of the next record, or of the end or the fault */
	uint64_t lost;          /* records that the stream itself says were lost, so far */
	struct stream_damage damages[STREAM_DAMAGES_MAX]; /* the first ones */
	uint64_t nr_damages, damaged_bytes;               /* of all */
	struct stream_note *notes, *last_note;
};

/*
 * Read the next record. Returns 1; 0 at the end of what can be read, where stream->fault says
 * whether that is the end of the data; -errno if reading fails at stream->offset.
 */
int record_stream_next(struct record_stream *stream, struct event *event);

/* Read records while there is nothing else to say: see next_run(). May read none at any time. */
void record_stream_next_run(struct record_stream *stream, struct stream_room *room);

/* The same of briefs: see next_briefs(). */
void record_stream_next_briefs(struct record_stream *stream, struct brief_room *room);

/* Go on behind the end of a file that may have grown since, and cut off a record before. */
void record_stream_resume(struct record_stream *stream);

/* NULL-safe. */
void record_stream_destroy(struct record_stream *stream);

/* For implementations: note the fault, and end the stream with it. Returns 0. */
int record_stream_stop(struct record_stream *stream, enum record_fault fault);

/* For implementations: append a note, which is the stream's from now on. */
void record_stream_note(struct record_stream *stream, struct stream_note *note);

/* For readers: the notes so far, which are the caller's from now on. */
struct stream_note *record_stream_take_notes(struct record_stream *stream);
void stream_notes_free(struct stream_note *notes);

/* For implementations: note that `size` bytes are damaged. */
void record_stream_damage(struct record_stream *stream, uint64_t offset, uint64_t size,
			  uint64_t packet);

/* For implementations: hand out the record in *event, and step over its `size` bytes. Returns 1. */
static inline int record_stream_take(struct record_stream *stream, struct event *event,
				     uint64_t size)
{
	event->vcpu = stream->vcpu;
	event->index = stream->index++;
	event->offset = stream->offset;
	stream->offset += size;
	return 1;
}

#endif
