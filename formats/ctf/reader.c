/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"
#include "formats/base/text.h"
#include "formats/ctf/internal.h"

enum { SEARCH_BYTES = 64 << 10 };

/* --- packets: a whole one at a time, which its checksum vouches for ----------------------------
 */

/* Read a part of the file. Returns how much of it is there, or -errno. */
static ssize_t fill(const struct ctf_stream *s, void *out, size_t size, uint64_t offset)
{
	return byte_source_fill(&s->base.records, out, size, offset);
}

static bool grow(struct ctf_stream *s, size_t size)
{
	uint8_t *bigger;

	if (s->capacity >= size + CTF_PACKET_SLACK)
		return true;
	bigger = realloc(s->packet, size + CTF_PACKET_SLACK);
	if (!bigger)
		return false;
	memset(bigger + size, 0, CTF_PACKET_SLACK);
	s->packet = bigger;
	s->capacity = size + CTF_PACKET_SLACK;
	return true;
}

/*
 * Load the packet at an offset. Returns 1; 0 if there is no whole packet of the stream; -errno.
 * *cut says whether the file ends within what looks like one.
 */
static int load_packet(struct ctf_stream *s, uint64_t offset, struct ctf_packet *packet, bool *cut)
{
	uint8_t header[CTF_PACKET_HEADER_SIZE];
	uint64_t left = s->base.records.size - offset;
	ssize_t n = fill(s, header, sizeof(header), offset);

	*cut = n >= 0 && n < CTF_PACKET_HEADER_SIZE;
	if (n < CTF_PACKET_HEADER_SIZE)
		return n < 0 ? (int)n : 0;
	if (!ctf_packet_get(header, &s->decoder->described.identity, packet) ||
	    packet->stream != s->number || packet->size > CTF_PACKET_LIMIT)
		return 0;
	*cut = packet->size > left;
	if (*cut)
		return 0;
	if (!grow(s, packet->size))
		return -ENOMEM;
	n = fill(s, s->packet, packet->size, offset);
	if (n < 0)
		return (int)n;
	return (uint64_t)n == packet->size &&
	       ctf_packet_crc(s->packet, packet->size) == packet->crc;
}

/* What every packet of the stream begins with. */
static void make_pattern(const struct ctf_stream *s, uint8_t pattern[4 + CTF_UUID_SIZE])
{
	const struct ctf_identity *identity = &s->decoder->described.identity;
	uint8_t header[CTF_PACKET_HEADER_SIZE];

	ctf_packet_put(header, identity, &(struct ctf_packet){0});
	memcpy(pattern, header, 4 + CTF_UUID_SIZE);
}

/*
 * Find the next whole packet from *offset on, and load it. Returns 1 with its offset, 0 if there is
 * none, -errno.
 */
static int find_packet(struct ctf_stream *s, uint64_t *offset, struct ctf_packet *packet)
{
	uint8_t pattern[4 + CTF_UUID_SIZE], window[SEARCH_BYTES];
	bool cut;

	make_pattern(s, pattern);
	for (;;) {
		ssize_t n = fill(s, window, sizeof(window), *offset);
		const uint8_t *hit;
		int ret;

		if (n < (ssize_t)sizeof(pattern))
			return n < 0 ? (int)n : 0;
		hit = memmem(window, (size_t)n, pattern, sizeof(pattern));
		if (!hit) {
			*offset += (uint64_t)n - sizeof(pattern) + 1;
			continue;
		}
		*offset += (uint64_t)(hit - window);
		ret = load_packet(s, *offset, packet, &cut);
		if (ret)
			return ret;
		++*offset;
	}
}

static int learn(struct ctf_stream *s, enum ctf_meaning kind, uint16_t id,
		 const struct ctf_value *value)
{
	struct ctf_meanings *m = &s->meanings[kind];

	if (id >= m->count) {
		size_t count = m->count ? 2 * m->count : 256;
		void *bigger;

		while (count <= id)
			count *= 2;
		bigger = reallocarray(m->items, count, sizeof(*m->items));
		if (!bigger)
			return -ENOMEM;
		m->items = bigger;
		memset(m->items + m->count, 0, (count - m->count) * sizeof(*m->items));
		m->count = count;
	}
	m->items[id].value = *value;
	m->items[id].packet = s->nr_packets;
	return 0;
}

static int learn_string(struct ctf_stream *s, uint16_t id, const char *text)
{
	char clean[EVENT_STRING_MAX + 1];
	struct ctf_value value = {{0}};

	clean_text(clean, sizeof(clean), text);
	memcpy(&value, clean, strlen(clean));
	return learn(s, CTF_MEANS_STRING, id, &value);
}

static int learn_cache(struct ctf_stream *s, uint16_t id, struct cursor *c)
{
	const struct decoder_input *input = &s->decoder->input;
	uint64_t object_size = cursor_u64(c), size = cursor_u64(c);
	const char *text = cursor_string(c);
	char name[CTF_NAME_MAX + 1];

	if (!text || !id)
		return 0;
	clean_text(name, sizeof(name), text);
	return input->add_cache(&s->base, &(struct sidecar_cache){.id = id,
								  .name = name,
								  .object_size = object_size,
								  .size = size});
}

static int read_entry(struct ctf_stream *s, enum ctf_table table, struct cursor *c)
{
	uint16_t id = cursor_u16(c);
	struct ctf_value value = {{0}};
	const char *text;

	switch (table) {
	case CTF_TABLE_NEAR:
		value.word[0] = (uint64_t)(int64_t)(int32_t)cursor_u32(c);
		return learn(s, CTF_MEANS_CODE, id, &value);
	case CTF_TABLE_CODE:
		value.word[0] = cursor_u64(c);
		return learn(s, CTF_MEANS_CODE, id, &value);
	case CTF_TABLE_FLAGS:
		value.word[0] = cursor_u64(c);
		return learn(s, CTF_MEANS_FLAGS, id, &value);
	case CTF_TABLE_STRINGS:
		text = cursor_string(c);
		return text ? learn_string(s, id, text) : 0;
	case CTF_TABLE_CACHES:
		return learn_cache(s, id, c);
	case CTF_TABLE_STACKS:
		value.word[1] = cursor_u16(c);
		value.word[0] = cursor_u64(c);
		return learn(s, CTF_MEANS_FRAME, id, &value);
	case CTF_NR_TABLES:
		break;
	}
	return 0;
}

/* What the ids in a packet that was loaded stand for. Returns 1; 0 if there are no such tables;
 * -errno. */
static int read_tables(struct ctf_stream *s, const struct ctf_packet *packet)
{
	uint64_t clock = packet->end;
	uint32_t id;
	size_t end = packet->content / 8;
	size_t header = ctf_read_header(s, packet->tables, end, &clock, &id);
	struct cursor c = cursor_make(s->packet, end);
	const enum ctf_table nr_tables = (enum ctf_table)ctf_plan_nr_tables(s->plan);
	uint16_t counts[CTF_NR_TABLES];
	int ret = 0;

	if (!header || id != ctf_plan_id(s->plan, CTF_TABLES) || clock != packet->end)
		return 0;
	s->nr_packets++;
	c.swap = s->decoder->described.identity.big_endian;
	cursor_seek(&c, packet->tables + header);
	for (enum ctf_table i = 0; i < nr_tables; i++)
		counts[i] = cursor_u16(&c);
	for (enum ctf_table i = 0; i < nr_tables; i++)
		for (unsigned int n = 0; !ret && !c.failed && n < counts[i]; n++)
			ret = read_entry(s, i, &c);
	if (ret)
		return ret;
	return !c.failed && c.pos == end;
}

/* Begin with the events of a packet that was loaded. Returns 1; 0 if they are none; -errno. */
static int enter_packet(struct ctf_stream *s, uint64_t offset, const struct ctf_packet *packet)
{
	s->packet_begin = offset;
	s->next_packet = offset + packet->size;
	if (packet->begin < s->clock || packet->sequence < s->sequence)
		return 0;
	if (packet->sequence > s->sequence && !s->was_damaged)
		record_stream_damage(&s->base, offset, 0, s->sequence);
	s->was_damaged = false;
	s->sequence = packet->sequence + 1;
	s->clock = packet->begin;
	s->clock_end = packet->end;
	s->base.lost = packet->lost > s->base.lost ? packet->lost : s->base.lost;
	s->at = CTF_PACKET_HEADER_SIZE;
	s->end = packet->tables;
	return read_tables(s, packet);
}

/* The bytes up to `end` are damaged, and so is the packet that should be there. */
static void damage(struct ctf_stream *s, uint64_t begin, uint64_t end)
{
	record_stream_damage(&s->base, begin, end - begin, s->sequence);
	s->was_damaged = true;
	s->base.offset = end;
}

/* Returns 1 at the first event of the next packet, 0 at the end or with a fault set, or -errno. */
static int begin_packet(struct ctf_stream *s)
{
	uint64_t offset = s->next_packet, found = offset;
	struct ctf_packet packet;
	bool cut;
	int ret;

	if (offset >= s->base.records.size)
		return 0;
	ret = load_packet(s, offset, &packet, &cut);
	if (!ret) {
		found++;
		ret = find_packet(s, &found, &packet);
		if (!ret && cut)
			return record_stream_stop(&s->base, RECORD_FAULT_TRUNCATED);
		s->next_packet = ret ? found : s->base.records.size;
		if (ret >= 0)
			damage(s, offset, s->next_packet);
	}
	if (ret <= 0)
		return ret;
	ret = enter_packet(s, found, &packet);
	if (!ret) {
		s->at = s->end = 0;
		damage(s, found, s->next_packet);
		s->sequence++;
	}
	return ret < 0 ? ret : 1;
}

/* --- events ---------------------------------------------------------------------------------- */

static int next(struct record_stream *base, struct event *event)
{
	struct ctf_stream *s = (struct ctf_stream *)base;
	int ret;

	for (;;) {
		size_t begin = s->at;

		if (s->at >= s->end) {
			base->offset = s->next_packet;
			ret = begin_packet(s);
			if (ret <= 0)
				return ret;
			continue;
		}
		base->offset = s->packet_begin + begin;
		ret = ctf_read_event(s, event, s->bytes);
		if (ret > 0)
			return record_stream_take(base, event, s->at - begin);
		if (ret < 0) {
			damage(s, base->offset, s->next_packet);
			s->end = s->at = 0;
		}
	}
}

static void destroy_stream(struct record_stream *base)
{
	struct ctf_stream *s = (struct ctf_stream *)base;

	for (enum ctf_meaning kind = 0; kind < CTF_NR_MEANINGS; kind++)
		free(s->meanings[kind].items);
	free(s->packet);
	free(s);
}

static int add_stream(struct trace_decoder *base, unsigned int instance, unsigned int vcpu,
		      struct record_stream **out, struct error *err)
{
	static const struct record_stream_ops ops = {.next = next,
						     .next_run = ctf_read_run,
						     .next_briefs = ctf_read_briefs,
						     .destroy = destroy_stream};
	const struct ctf_decoder *decoder = (const struct ctf_decoder *)base;
	struct byte_source records;
	struct ctf_stream *s;
	int ret = trace_files_stream(decoder->input.files, "cpu", vcpu,
				     base->instances[instance].suffix, &records, err);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->base = (struct record_stream){.ops = &ops,
					 .instance = &base->instances[instance],
					 .records = records,
					 .vcpu = vcpu};
	s->decoder = decoder;
	s->plan = decoder->plans[instance];
	s->number = instance;
	*out = &s->base;
	return 0;
}

/* --- the trace ------------------------------------------------------------------------------- */

/* A stream that begins like CTF cannot be read without its metadata. Returns 0 if there is none. */
static int refuse_orphans(struct trace_files *files, struct error *err)
{
	size_t nr_vcpus;
	const unsigned int *vcpus = trace_files_vcpus(files, &nr_vcpus);

	for (size_t i = 0; i < nr_vcpus; i++) {
		struct byte_source source;
		uint32_t magic = 0;
		int ret;

		ret = trace_files_stream(files, "cpu", vcpus[i], "", &source, err);
		if (ret)
			return ret;
		if (byte_source_fill(&source, &magic, sizeof(magic), 0) == sizeof(magic) &&
		    (magic == CTF_MAGIC || magic == __builtin_bswap32(CTF_MAGIC)))
			return error_set(err, ENOENT,
					 "cpu%u is a CTF stream, but there is no file %s", vcpus[i],
					 CTF_METADATA_NAME);
	}
	return 0;
}

static void destroy(struct trace_decoder *base)
{
	struct ctf_decoder *decoder = (struct ctf_decoder *)base;

	for (size_t i = 0; i < decoder->described.nr_instances; i++)
		free(decoder->plans[i]);
	ctf_described_deinit(&decoder->described);
	free(decoder);
}

static int make_plans(struct ctf_decoder *decoder, struct error *err)
{
	for (size_t i = 0; i < decoder->described.nr_instances; i++) {
		const struct trace_instance *about = &decoder->described.instances[i];

		decoder->plans[i] = ctf_plan_create(about->classes, about->nr_classes);
		if (!decoder->plans[i])
			return error_set(err, ENOMEM, "out of memory");
		ctf_find_get(decoder->plans[i], &decoder->described.identity);
	}
	return 0;
}

/* Returns 1 and a decoder, 0 for format version 2, -errno. */
static int open_text(const struct decoder_input *input, const char *text, size_t size,
		     struct trace_decoder **out, struct error *err)
{
	struct ctf_decoder *decoder = calloc(1, sizeof(*decoder));
	int ret;

	if (!decoder)
		return error_set(err, ENOMEM, "out of memory");
	ret = ctf_metadata_parse(text, size, &decoder->described, err);
	if (!ret)
		ret = make_plans(decoder, err);
	if (ret) {
		destroy(&decoder->base);
		return ret > 0 ? 0 : ret;
	}
	decoder->base = (struct trace_decoder){.ops = &ctf_decoder,
					       .checksums = true,
					       .losses_known = true,
					       .instances = decoder->described.instances,
					       .nr_instances = decoder->described.nr_instances};
	decoder->input = *input;
	*out = &decoder->base;
	return 1;
}

/* As open_text(); -ENOENT: there is no such file. */
static int open_file(const struct decoder_input *input, const char *name,
		     struct trace_decoder **out, struct error *err)
{
	char *text;
	size_t size;
	int ret = trace_files_load(input->files, name, CTF_METADATA_MAX, &text, &size, err);

	if (ret)
		return ret;
	ret = open_text(input, text, size, out, err);
	free(text);
	return ret;
}

static bool is_whole(const struct trace_decoder *base)
{
	return base && !((const struct ctf_decoder *)base)->described.damaged;
}

static void say_damage(struct trace_decoder *base, const char *what)
{
	snprintf(base->damage, sizeof(base->damage), "%s", what);
}

/* The description of two that is whole, or else the one that can be read. A trace of another
 * version or program has no copy: then *err says what its description is. */
static int open_trace(const struct decoder_input *input, struct trace_decoder **out,
		      struct error *err)
{
	struct trace_decoder *first = NULL, *copy = NULL;
	int ret = open_file(input, CTF_METADATA_NAME, &first, err);
	int copied = ret == -ENOMEM ? ret : open_file(input, CTF_METADATA_COPY_NAME, &copy, NULL);

	if (!is_whole(first) && is_whole(copy)) {
		say_damage(copy, ret == -ENOENT ? CTF_METADATA_NAME " is missing: its copy is read"
						: CTF_METADATA_NAME
					 " is damaged: its checksum is wrong; its copy is read");
		if (first)
			destroy(first);
		*out = copy;
		return 1;
	}
	if (first && !is_whole(first))
		say_damage(first, CTF_METADATA_NAME " is damaged: its checksum is wrong");
	else if (first && copied != -ENOENT && !is_whole(copy))
		say_damage(first, CTF_METADATA_COPY_NAME " is damaged: its checksum is wrong");
	if (copy)
		destroy(copy);
	*out = first;
	return ret == -ENOENT ? refuse_orphans(input->files, err) : ret;
}

const struct decoder_ops ctf_decoder = {.sidecar_name = SIDECAR_HIDDEN_NAME,
					.open = open_trace,
					.add_stream = add_stream,
					.destroy = destroy};
