/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/kmemtrace/kmemtrace.h"

enum { BUFFER_RECORDS = 256 };

struct kmemtrace_decoder {
	struct trace_decoder base;
	struct trace_files *files;
};

/* --- one vCPU -------------------------------------------------------------------------------- */

struct kmemtrace_stream {
	struct record_stream base;
	struct byte_source caches;
	bool order_known, swap;
	struct kmem_record record; /* the last one */
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

/* Sets *id; leaves it alone if the record has no id. */
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

static int next(struct record_stream *base, struct event *event)
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
	kmemtrace_decode(bytes, stream->swap, &stream->record);
	stream->record.cache = cache;
	*event = kmem_event_of(&stream->record, &kmem_instance);
	return record_stream_take(base, event, size);
}

static void resume(struct record_stream *base)
{
	struct kmemtrace_stream *stream = (struct kmemtrace_stream *)base;

	byte_source_refresh(&stream->caches);
	stream->ids_count = 0;
}

static void destroy_stream(struct record_stream *base)
{
	free(base);
}

static int add_stream(struct trace_decoder *base, unsigned int instance, unsigned int vcpu,
		      struct record_stream **out, struct error *err)
{
	static const struct record_stream_ops ops = {
		.next = next, .resume = resume, .destroy = destroy_stream};
	const struct kmemtrace_decoder *decoder = (const struct kmemtrace_decoder *)base;
	struct kmemtrace_stream *stream;
	struct byte_source records;
	int ret = trace_files_stream(decoder->files, "cpu", vcpu, "", &records, err);

	(void)instance;
	if (ret)
		return ret;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return error_set(err, ENOMEM, "out of memory");
	stream->base = (struct record_stream){
		.ops = &ops, .instance = &kmem_instance, .records = records, .vcpu = vcpu};
	stream->window =
		(struct byte_window){.bytes = stream->buffer, .capacity = sizeof(stream->buffer)};
	/* Ids that cannot be read are 0. */
	trace_files_stream(decoder->files, "caches", vcpu, "", &stream->caches, NULL);
	*out = &stream->base;
	return 0;
}

/* --- the trace ------------------------------------------------------------------------------- */

/* A text file with one decimal number. */
static bool read_number(struct trace_files *files, const char *name, uint64_t *out)
{
	struct byte_source source;
	char text[32] = "";

	if (trace_files_source(files, name, &source, NULL) ||
	    byte_source_fill(&source, text, sizeof(text) - 1, 0) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return !text_parse_u64(text, UINT64_MAX, out);
}

static void read_numbers(struct trace_decoder *base, struct trace_files *files)
{
	uint64_t version = 0, bytes = 0;

	if (read_number(files, "abi_version", &version) && version > KMEMTRACE_ABI_VERSION)
		snprintf(base->note, sizeof(base->note),
			 "kmemtrace ABI version %" PRIu64 ", of which version %d is shown", version,
			 KMEMTRACE_ABI_VERSION);
	base->losses_known = read_number(files, "total_overruns", &bytes);
	base->overruns = bytes / KMEMTRACE_RECORD_SIZE + (bytes % KMEMTRACE_RECORD_SIZE != 0);
}

/* Nothing identifies this encoding: any files of streams may be a trace in it. */
static int open_trace(const struct decoder_input *input, struct trace_decoder **out,
		      struct error *err)
{
	struct kmemtrace_decoder *decoder;
	size_t nr_vcpus;

	trace_files_vcpus(input->files, &nr_vcpus);
	if (!nr_vcpus)
		return 0;
	decoder = calloc(1, sizeof(*decoder));
	if (!decoder)
		return error_set(err, ENOMEM, "out of memory");
	decoder->base.ops = &kmemtrace_decoder;
	decoder->base.instances = &kmem_instance;
	decoder->base.nr_instances = 1;
	decoder->files = input->files;
	read_numbers(&decoder->base, input->files);
	*out = &decoder->base;
	return 1;
}

static void destroy(struct trace_decoder *base)
{
	free(base);
}

const struct decoder_ops kmemtrace_decoder = {.sidecar_name = SIDECAR_NAME,
					      .open = open_trace,
					      .add_stream = add_stream,
					      .destroy = destroy};
