/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/kmemtrace/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include "formats/kmemtrace/kmemtrace.h"

enum { BUFFER_RECORDS = 256 };

struct kmemtrace_stream {
	struct record_stream base;
	struct byte_source caches;
	bool order_known, swap;
	struct byte_window window;
	uint64_t ids_index;
	size_t ids_count;
	uint8_t buffer[BUFFER_RECORDS * KMEMTRACE_RECORD_SIZE];
	uint8_t ids[BUFFER_RECORDS * sizeof(uint16_t)];
};

/* Up to 56 bytes at the current offset. Returns how many there are, or -errno. */
static ssize_t peek(struct kmemtrace_stream *s, uint8_t **bytes)
{
	ssize_t n = byte_window_peek(&s->window, &s->base.records, s->base.offset,
				     KMEMTRACE_RECORD_SIZE, bytes);

	return n < KMEMTRACE_RECORD_SIZE ? n : KMEMTRACE_RECORD_SIZE;
}

/* Sets *id, or leaves it alone if there is none. */
static int peek_cache(struct kmemtrace_stream *s, uint16_t *id)
{
	uint64_t index = s->base.index;
	const uint8_t *p;

	if (index < s->ids_index || index >= s->ids_index + BUFFER_RECORDS || !s->ids_count) {
		ssize_t n =
			byte_source_fill(&s->caches, s->ids, sizeof(s->ids), index * sizeof(*id));

		if (n < 0)
			return (int)n;
		s->ids_index = index;
		s->ids_count = (size_t)n / sizeof(*id);
	}
	if (index - s->ids_index >= s->ids_count)
		return 0;
	p = s->ids + (index - s->ids_index) * sizeof(*id);
	*id = (uint16_t)(p[0] | p[1] << 8);
	return 0;
}

static int next(struct record_stream *base, struct trace_event *event)
{
	struct kmemtrace_stream *stream = (struct kmemtrace_stream *)base;
	uint8_t *bytes;
	uint16_t cache = 0, size;
	ssize_t n;
	int ret;

	n = peek(stream, &bytes);
	if (n <= 0)
		return (int)n;
	if (n < KMEMTRACE_HEADER_SIZE)
		return record_stream_stop(base, RECORD_FAULT_TRUNCATED);
	if (!stream->order_known && !kmemtrace_detect_order(bytes, &stream->swap))
		return record_stream_stop(base, RECORD_FAULT_SIZE);
	stream->order_known = true;
	size = kmemtrace_size(bytes, stream->swap);
	if (size < KMEMTRACE_RECORD_SIZE)
		return record_stream_stop(base, RECORD_FAULT_SIZE);
	if (n < KMEMTRACE_RECORD_SIZE || size > base->records.size - base->offset)
		return record_stream_stop(base, RECORD_FAULT_TRUNCATED);
	ret = peek_cache(stream, &cache);
	if (ret)
		return ret;
	kmemtrace_decode(bytes, stream->swap, &event->record);
	event->record.cache = cache;
	return record_stream_take(base, event, size);
}

static void destroy(struct record_stream *base)
{
	free(base);
}

int kmemtrace_stream_create(unsigned int vcpu, struct byte_source records,
			    struct byte_source caches, struct record_stream **out)
{
	static const struct record_stream_ops ops = {.next = next, .destroy = destroy};
	struct kmemtrace_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	stream->base = (struct record_stream){.ops = &ops, .records = records, .vcpu = vcpu};
	stream->window =
		(struct byte_window){.bytes = stream->buffer, .capacity = sizeof(stream->buffer)};
	stream->caches = caches;
	*out = &stream->base;
	return 0;
}
