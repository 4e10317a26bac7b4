/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events and tables out of a packet. Its checksum was right; nothing else is trusted. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"
#include "formats/base/text.h"
#include "formats/ctf/internal.h"

/* --- tables ---------------------------------------------------------------------------------- */

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

/* The header of an event, in whichever form. Returns its bytes; 0 if there is no room for one. */
static size_t read_any_header(const struct ctf_stream *s, size_t at, size_t end, uint64_t *clock,
			      uint32_t *id)
{
	struct bit_cursor c = {.bytes = s->packet,
			       .pos = at * 8,
			       .end = end * 8,
			       .big_endian = s->decoder->described.identity.big_endian};

	*id = (uint32_t)bit_get(&c, CTF_ID_BITS);
	if (*id != CTF_EXTENDED) {
		*clock = ctf_next_clock(*clock, bit_get(&c, CTF_CLOCK_BITS), CTF_CLOCK_BITS);
	} else {
		bit_align(&c);
		*id = (uint32_t)bit_get(&c, 32);
		*clock = bit_get(&c, 64);
	}
	return c.failed ? 0 : bit_bytes(&c) - at;
}

/* Mostly it is the compact one of a little-endian trace. */
static inline size_t read_header(const struct ctf_stream *s, size_t at, size_t end, uint64_t *clock,
				 uint32_t *id)
{
	uint32_t word;

	if (!s->decoder->described.identity.big_endian && end - at >= CTF_HEADER_BYTES) {
		memcpy(&word, s->packet + at, sizeof(word));
		word = le32toh(word);
		*id = word & CTF_EXTENDED;
		if (*id != CTF_EXTENDED) {
			*clock = ctf_next_clock(*clock, word >> CTF_ID_BITS, CTF_CLOCK_BITS);
			return CTF_HEADER_BYTES;
		}
	}
	return read_any_header(s, at, end, clock, id);
}

int ctf_read_tables(struct ctf_stream *s, const struct ctf_packet *packet)
{
	uint64_t clock = packet->end;
	uint32_t id;
	size_t end = packet->content / 8;
	size_t header = read_header(s, packet->tables, end, &clock, &id);
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

/* --- events ---------------------------------------------------------------------------------- */

/* Strings with their NULs, from *at on; `to` is zeroed. One that was cut is longer than its field,
 * which has no NUL then. Returns false if they are none. */
static bool read_texts(const struct ctf_stream *s, const struct ctf_form *form, size_t *at,
		       uint8_t *to)
{
	for (size_t i = 0; i < form->nr_texts; i++) {
		const struct ctf_step *step = &form->steps[form->nr_steps + i];
		const char *from = (const char *)s->packet + *at;
		const size_t length = strnlen(from, s->end - *at);
		char clean[EVENT_LONG_STRING_MAX + 1];

		if (length >= EVENT_TEXT_ROOM || length == s->end - *at)
			return false;
		clean_text(clean, sizeof(clean), from);
		memcpy(to + step->at, clean, strlen(clean));
		*at += length + 1;
	}
	return true;
}

/* What follows an event's header, from *at on. Returns false if it is not of this form. */
static inline bool read_body(const struct ctf_stream *s, const struct ctf_form *form, size_t *at,
			     uint8_t *bytes)
{
	if (*at + form->body_size > s->end || !form->get(s, form, s->packet + *at, bytes))
		return false;
	*at += form->body_size;
	return !form->nr_texts || read_texts(s, form, at, bytes);
}

static int read_form(struct ctf_stream *s, const struct ctf_form *form, size_t at,
		     struct event *event, uint8_t *bytes)
{
	if (!read_body(s, form, &at, bytes))
		return -EINVAL;
	s->at = at;
	event->class = form->class;
	event->instance = s->instance;
	event->ns = s->has_time ? s->time : (int64_t)s->clock;
	event->bytes = bytes;
	s->has_time = false;
	return 1;
}

static int read_time(struct ctf_stream *s, size_t at)
{
	uint64_t time;

	if (at + sizeof(time) > s->end)
		return -EINVAL;
	memcpy(&time, s->packet + at, sizeof(time));
	s->time = (int64_t)(s->decoder->described.identity.big_endian ? be64toh(time)
								      : le64toh(time));
	s->has_time = true;
	s->at = at + sizeof(time);
	return 0;
}

int ctf_read_event(struct ctf_stream *s, struct event *event, uint8_t *bytes)
{
	uint64_t clock = s->clock;
	uint32_t id;
	size_t header = read_header(s, s->at, s->end, &clock, &id);

	if (!header || clock < s->clock || clock > s->clock_end)
		return -EINVAL;
	s->clock = clock;
	if (id < s->plan->nr_forms)
		return read_form(s, &s->plan->forms[id], s->at + header, event, bytes);
	return id == ctf_plan_id(s->plan, CTF_TIME) ? read_time(s, s->at + header) : -EINVAL;
}

/* The next event of a run: one that has a header, and a form. Returns where it ends; 0 if it is
 * anything else. */
static size_t read_usual(struct ctf_stream *s, struct event *event, uint8_t *bytes)
{
	const struct ctf_form *form;
	uint64_t clock = s->clock;
	uint32_t id;
	const size_t header = read_header(s, s->at, s->end, &clock, &id);
	size_t at = s->at + header;

	if (!header || clock < s->clock || clock > s->clock_end || id >= s->plan->nr_forms)
		return 0;
	form = &s->plan->forms[id];
	if (!read_body(s, form, &at, bytes))
		return 0;
	s->clock = clock;
	event->class = form->class;
	event->instance = s->instance;
	event->ns = (int64_t)clock;
	event->bytes = bytes;
	return at;
}

/* Where a run has got to. */
struct run {
	struct stream_event *out;
	size_t n; /* events that there is room for */
	uint8_t *bytes;
	size_t size; /* of the room for bytes */
};

static void take_usual(struct ctf_stream *s, struct run *run, size_t end)
{
	const struct event_class *class = run->out->event.class;

	s->base.offset = s->packet_begin + s->at;
	record_stream_take(&s->base, &run->out->event, end - s->at);
	s->at = end;
	run->out++->end = s->base.offset;
	run->n--;
	run->bytes += class->size;
	run->size -= class->size;
}

/* The form of the event at `at`, if it has a compact header of a little-endian trace; NULL
 * otherwise. `nr_ids`: ids of such events. There is room for any in the packet. */
static inline const struct ctf_form *read_compact(const struct ctf_stream *s, size_t nr_ids,
						  size_t at, uint64_t *clock, uint8_t *bytes)
{
	const struct ctf_form *form;
	uint64_t next;
	uint32_t word;

	memcpy(&word, s->packet + at, sizeof(word));
	word = le32toh(word);
	next = ctf_next_clock(*clock, word >> CTF_ID_BITS, CTF_CLOCK_BITS);
	if ((word & CTF_EXTENDED) >= nr_ids || next > s->clock_end)
		return NULL;
	form = &s->plan->forms[word & CTF_EXTENDED];
	if (!form->get(s, form, s->packet + at + CTF_HEADER_BYTES, bytes))
		return NULL;
	*clock = next;
	return form;
}

/* Where an event of the packet may begin so that all of it is in the packet. */
static size_t last_place(const struct ctf_stream *s)
{
	const size_t most = CTF_HEADER_BYTES + s->plan->most_body_size;

	return s->end > most ? s->end - most : 0;
}

/* The ids of events that have a compact header, and nothing behind their fields. */
static size_t nr_compact_ids(const struct ctf_stream *s)
{
	if (s->decoder->described.identity.big_endian || s->plan->has_texts)
		return 0;
	return s->plan->nr_forms < CTF_EXTENDED ? s->plan->nr_forms : CTF_EXTENDED;
}

/* Mostly, events of a run are such. What changes with each is in variables of its own, as the
 * compiler takes each store of a byte for one that may change the stream. */
static void read_compact_run(struct ctf_stream *s, struct run *run)
{
	const size_t nr_ids = nr_compact_ids(s), last = last_place(s);
	struct stream_event *out = run->out, *const end = out + run->n;
	uint8_t *bytes = run->bytes, *const last_bytes = bytes + run->size - EVENT_MAX_SIZE;
	uint64_t clock = s->clock, index = s->base.index;
	size_t pos = s->at;

	while (out < end && pos < last && bytes <= last_bytes) {
		const struct ctf_form *form = read_compact(s, nr_ids, pos, &clock, bytes);

		if (!form)
			break;
		out->event.class = form->class;
		out->event.instance = s->instance;
		out->event.vcpu = s->base.vcpu;
		out->event.ns = (int64_t)clock;
		out->event.bytes = bytes;
		out->event.index = index++;
		out->event.offset = s->packet_begin + pos;
		pos += CTF_HEADER_BYTES + form->body_size;
		out++->end = s->packet_begin + pos;
		bytes += form->class->size;
	}
	if (out == run->out)
		return;
	s->clock = clock;
	s->at = pos;
	s->base.index = index;
	s->base.offset = s->packet_begin + pos;
	*run = (struct run){out, (size_t)(end - out), bytes,
			    run->size - (size_t)(bytes - run->bytes)};
}

size_t ctf_read_run(struct record_stream *base, struct stream_event *out, size_t n, uint8_t *bytes,
		    size_t size)
{
	struct ctf_stream *s = (struct ctf_stream *)base;
	struct run run = {out, n, bytes, size};

	while (!s->has_time && run.size >= EVENT_MAX_SIZE) {
		size_t end;

		read_compact_run(s, &run);
		if (!run.n || s->at >= s->end || run.size < EVENT_MAX_SIZE)
			break;
		end = read_usual(s, &run.out->event, run.bytes);
		if (!end)
			break;
		take_usual(s, &run, end);
	}
	return n - run.n;
}
