/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/record-stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static ssize_t read_file(const struct byte_source *source, void *out, size_t size, uint64_t offset)
{
	ssize_t n;

	do
		n = pread(source->fd, out, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t read_memory(const struct byte_source *source, void *out, size_t size,
			   uint64_t offset)
{
	memcpy(out, source->base + offset, size);
	return (ssize_t)size;
}

struct byte_source byte_source_file(int fd, uint64_t size)
{
	return (struct byte_source){.read = read_file, .fd = fd, .size = size};
}

struct byte_source byte_source_memory(const void *base, uint64_t size)
{
	return (struct byte_source){.read = read_memory, .fd = -1, .base = base, .size = size};
}

void record_stream_init(struct record_stream *stream, unsigned int vcpu, struct byte_source records,
			struct byte_source caches)
{
	*stream = (struct record_stream){.records = records, .caches = caches, .vcpu = vcpu};
}

/* Fill out from offset on, as far as the source goes. Returns bytes or -errno. */
static ssize_t fill(const struct byte_source *source, uint8_t *out, size_t size, uint64_t offset)
{
	size_t done = 0;

	if (offset >= source->size)
		return 0;
	if (size > source->size - offset)
		size = (size_t)(source->size - offset);
	while (done < size) {
		ssize_t n = source->read(source, out + done, size - done, offset + done);

		if (n < 0)
			return n;
		if (n == 0)
			break; /* the file has become shorter meanwhile */
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Up to 56 bytes at the current offset. Returns how many there are, or -errno. */
static ssize_t peek(struct record_stream *s, const uint8_t **bytes)
{
	uint64_t skip = s->offset - s->buffer_offset;
	ssize_t n;

	if (skip > s->buffer_size || s->buffer_size - skip < KMEMTRACE_RECORD_SIZE) {
		n = fill(&s->records, s->buffer, sizeof(s->buffer), s->offset);
		if (n < 0)
			return n;
		s->buffer_offset = s->offset;
		s->buffer_size = (size_t)n;
		skip = 0;
	}
	*bytes = s->buffer + skip;
	n = (ssize_t)(s->buffer_size - skip);
	return n < KMEMTRACE_RECORD_SIZE ? n : KMEMTRACE_RECORD_SIZE;
}

/* Sets *id, or leaves it alone if there is none. */
static int peek_cache(struct record_stream *s, uint16_t *id)
{
	const uint8_t *p;

	if (s->index < s->ids_index || s->index >= s->ids_index + RECORD_STREAM_BUFFER ||
	    !s->ids_count) {
		ssize_t n = fill(&s->caches, s->ids, sizeof(s->ids), s->index * sizeof(*id));

		if (n < 0)
			return (int)n;
		s->ids_index = s->index;
		s->ids_count = (size_t)n / sizeof(*id);
	}
	if (s->index - s->ids_index >= s->ids_count)
		return 0;
	p = s->ids + (s->index - s->ids_index) * sizeof(*id);
	*id = (uint16_t)(p[0] | p[1] << 8);
	return 0;
}

static int stop(struct record_stream *s, enum record_fault fault)
{
	s->fault = fault;
	return 0;
}

int record_stream_next(struct record_stream *stream, struct trace_event *event)
{
	const uint8_t *bytes;
	uint16_t cache = 0, size;
	ssize_t n;
	int ret;

	if (stream->fault)
		return 0;
	n = peek(stream, &bytes);
	if (n <= 0)
		return (int)n;
	if (n < KMEMTRACE_HEADER_SIZE)
		return stop(stream, RECORD_FAULT_TRUNCATED);
	if (!stream->order_known && !kmemtrace_detect_order(bytes, &stream->swap))
		return stop(stream, RECORD_FAULT_SIZE);
	stream->order_known = true;
	size = kmemtrace_size(bytes, stream->swap);
	if (size < KMEMTRACE_RECORD_SIZE)
		return stop(stream, RECORD_FAULT_SIZE);
	if (n < KMEMTRACE_RECORD_SIZE || size > stream->records.size - stream->offset)
		return stop(stream, RECORD_FAULT_TRUNCATED);
	ret = peek_cache(stream, &cache);
	if (ret)
		return ret;
	kmemtrace_decode(bytes, stream->swap, &event->record);
	event->record.cache = cache;
	event->vcpu = stream->vcpu;
	event->index = stream->index++;
	event->offset = stream->offset;
	stream->offset += size;
	return 1;
}
