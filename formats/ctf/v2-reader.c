/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/ctf/ctf.h"
#include "formats/ctf/v2.h"

enum { BUFFER = 16 << 10 };

struct v2_decoder {
	struct trace_decoder base;
	struct decoder_input input;
	struct ctf_identity identity;
};

/* --- one vCPU: whole packets, but perhaps for the last one, of which all whole events are read -
 */

struct v2_stream {
	struct record_stream base;
	const struct v2_decoder *decoder;
	bool in_packet;
	uint64_t packet_begin, packet_end; /* bytes in the file */
	uint64_t content_end;              /* bit from the packet's begin */
	uint64_t clock, clock_end;         /* of the last event, and the packet's latest */
	struct u64_map sites, gfps;        /* values by id */
	struct kmem_record record;         /* the last one */
	struct byte_window window;
	uint8_t buffer[BUFFER];
};

static ssize_t peek(struct v2_stream *s, size_t size, uint8_t **bytes)
{
	return byte_window_peek(&s->window, &s->base.records, s->base.offset, size, bytes);
}

/* Returns 1 at the first event of the next packet, 0 at the end or with a fault set, or -errno. */
static int begin_packet(struct v2_stream *s)
{
	struct ctf_packet packet;
	uint8_t *bytes;
	ssize_t n;

	n = peek(s, CTF_V2_PACKET_HEADER_SIZE, &bytes);
	if (n <= 0)
		return (int)n;
	if (n < CTF_V2_PACKET_HEADER_SIZE)
		return record_stream_stop(&s->base, RECORD_FAULT_TRUNCATED);
	if (!ctf_v2_packet_get(bytes, &s->decoder->identity, &packet) || packet.begin < s->clock)
		return record_stream_stop(&s->base, RECORD_FAULT_PACKET);
	s->in_packet = true;
	s->packet_begin = s->base.offset;
	s->packet_end = s->base.offset + packet.size;
	s->content_end = packet.content;
	s->clock = packet.begin;
	s->clock_end = packet.end;
	s->base.lost = packet.lost;
	s->base.offset += CTF_V2_PACKET_HEADER_SIZE;
	return 1;
}

static int end_packet(struct v2_stream *s)
{
	s->in_packet = false;
	if (s->packet_end > s->base.records.size)
		return record_stream_stop(&s->base, RECORD_FAULT_TRUNCATED);
	s->base.offset = s->packet_end;
	return 1;
}

static int define(struct u64_map *map, uint64_t id, uint64_t value)
{
	uint64_t *place = u64_map_insert(map, id, NULL);

	if (!place)
		return -ENOMEM;
	*place = value;
	return 0;
}

/* A definition. Returns 0 or -errno. */
static int learn(struct v2_stream *s, struct v2_event *event)
{
	const struct decoder_input *input = &s->decoder->input;
	const uint64_t *values = event->values;

	if (event->id == V2_DEFINE_SITE)
		return define(&s->sites, values[V2_MEMBER_SITE_ID], values[V2_MEMBER_SITE]);
	if (event->id == V2_DEFINE_GFP)
		return define(&s->gfps, values[V2_MEMBER_GFP_ID], values[V2_MEMBER_GFP]);
	if (!values[V2_MEMBER_CACHE])
		return 0;
	return input->add_cache(&s->base, &(struct sidecar_cache){
						  .id = (uint16_t)values[V2_MEMBER_CACHE],
						  .name = event->name,
						  .object_size = values[V2_MEMBER_OBJECT_SIZE],
						  .size = values[V2_MEMBER_SIZE],
					  });
}

/* Replace the event's ids by what they stand for. Returns false if one is undefined. */
static bool resolve(const struct v2_stream *s, struct v2_event *event)
{
	uint64_t *values = event->values;
	const uint64_t *value;

	if (v2_event_has(event, V2_MEMBER_SITE_ID)) {
		value = u64_map_find(&s->sites, values[V2_MEMBER_SITE_ID]);
		if (!value)
			return false;
		values[V2_MEMBER_SITE] = *value;
	}
	if (v2_event_has(event, V2_MEMBER_GFP_ID) && values[V2_MEMBER_GFP_ID]) {
		value = u64_map_find(&s->gfps, values[V2_MEMBER_GFP_ID]);
		if (!value)
			return false;
		values[V2_MEMBER_GFP] = *value;
	}
	return true;
}

/* Bits of the packet's content that are left at the current offset. */
static uint64_t content_left(const struct v2_stream *s)
{
	uint64_t at = (s->base.offset - s->packet_begin) * 8;

	return at < s->content_end ? s->content_end - at : 0;
}

static bool is_valid(const struct v2_stream *s, struct v2_event *event)
{
	return event->clock >= s->clock && event->clock <= s->clock_end &&
	       (!v2_event_is_record(event) || resolve(s, event));
}

/*
 * The next event in the packet. Returns 1, with the cursor behind it; 0 with a fault set; -errno.
 */
static int next_event(struct v2_stream *s, struct bit_cursor *c, struct v2_event *event)
{
	uint64_t left = content_left(s);
	bool cut;
	ssize_t n;
	int ret;

	*c = (struct bit_cursor){.big_endian = s->decoder->identity.big_endian};
	n = peek(s, V2_MAX_EVENT, &c->bytes);
	if (n < 0)
		return (int)n;
	cut = (uint64_t)n * 8 < left;
	c->end = cut ? (size_t)n * 8 : (size_t)left;
	ret = v2_event_get(c, s->clock, event);
	if (ret == -ENODATA && cut)
		return record_stream_stop(&s->base, RECORD_FAULT_TRUNCATED);
	if (ret || !is_valid(s, event))
		return record_stream_stop(&s->base, RECORD_FAULT_EVENT);
	s->clock = event->clock;
	return 1;
}

static int next(struct record_stream *base, struct event *out)
{
	struct v2_stream *s = (struct v2_stream *)base;
	struct v2_event event;
	struct bit_cursor c;
	int ret;

	for (;;) {
		while (!s->in_packet || !content_left(s)) {
			ret = s->in_packet ? end_packet(s) : begin_packet(s);
			if (ret <= 0)
				return ret;
		}
		ret = next_event(s, &c, &event);
		if (ret <= 0)
			return ret;
		if (v2_event_is_record(&event)) {
			v2_event_to_record(&event, &s->record);
			*out = kmem_event_of(&s->record, &kmem_instance);
			return record_stream_take(base, out, bit_bytes(&c));
		}
		ret = learn(s, &event);
		if (ret)
			return ret;
		base->offset += bit_bytes(&c);
	}
}

static void destroy_stream(struct record_stream *base)
{
	struct v2_stream *s = (struct v2_stream *)base;

	u64_map_deinit(&s->sites);
	u64_map_deinit(&s->gfps);
	free(s);
}

static int add_stream(struct trace_decoder *base, unsigned int instance, unsigned int vcpu,
		      struct record_stream **out, struct error *err)
{
	static const struct record_stream_ops ops = {.next = next, .destroy = destroy_stream};
	const struct v2_decoder *decoder = (const struct v2_decoder *)base;
	struct byte_source records;
	struct v2_stream *s;
	int ret = trace_files_stream(decoder->input.files, "cpu", vcpu, "", &records, err);

	(void)instance;
	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->base = (struct record_stream){
		.ops = &ops, .instance = &kmem_instance, .records = records, .vcpu = vcpu};
	s->window = (struct byte_window){.bytes = s->buffer, .capacity = sizeof(s->buffer)};
	s->decoder = decoder;
	u64_map_init(&s->sites, sizeof(uint64_t));
	u64_map_init(&s->gfps, sizeof(uint64_t));
	*out = &s->base;
	return 0;
}

/* --- the trace ------------------------------------------------------------------------------- */

static void destroy(struct trace_decoder *base)
{
	free(base);
}

/* The part that describes packets and events has to be, to the letter, what sonde 0.1 wrote. */
static int check_layout(const char *text, struct error *err)
{
	char *layout = v2_layout_text();
	size_t size = layout ? strlen(layout) : 0, text_size = strlen(text);
	bool same = layout && text_size >= size && !strcmp(text + text_size - size, layout);

	if (!layout)
		return error_set(err, ENOMEM, "out of memory");
	free(layout);
	if (same)
		return 0;
	return ctf_metadata_refuse(err, "damaged, or changed: it does not describe sonde's events");
}

static int open_text(const struct decoder_input *input, const char *text,
		     struct trace_decoder **out, struct error *err)
{
	struct v2_decoder *decoder = calloc(1, sizeof(*decoder));
	int ret = decoder ? ctf_metadata_identity(text, &decoder->identity, err)
			  : error_set(err, ENOMEM, "out of memory");

	if (!ret)
		ret = check_layout(text, err);
	if (ret) {
		free(decoder);
		return ret;
	}
	decoder->base = (struct trace_decoder){.ops = &ctf_v2_decoder,
					       .losses_known = true,
					       .instances = &kmem_instance,
					       .nr_instances = 1};
	decoder->input = *input;
	*out = &decoder->base;
	return 1;
}

static int open_trace(const struct decoder_input *input, struct trace_decoder **out,
		      struct error *err)
{
	long version = 0;
	char *text;
	size_t size;
	int ret = trace_files_load(input->files, CTF_METADATA_NAME, CTF_METADATA_MAX, &text, &size,
				   err);

	if (ret)
		return ret == -ENOENT ? 0 : ret;
	ret = ctf_metadata_version(text, &version, err);
	if (!ret && version == V2_VERSION)
		ret = open_text(input, text, out, err);
	free(text);
	return ret;
}

const struct decoder_ops ctf_v2_decoder = {.sidecar_name = SIDECAR_HIDDEN_NAME,
					   .open = open_trace,
					   .add_stream = add_stream,
					   .destroy = destroy};
