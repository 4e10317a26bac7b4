/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events out of a packet. Its checksum was right; nothing else is trusted. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/ctf/internal.h"

/* --- fields ---------------------------------------------------------------------------------- */

/* A string as it is. */
static void get_string(const uint8_t *from, const struct ctf_step *step, uint8_t *to)
{
	char raw[EVENT_STRING_MAX + 1] = "", clean[EVENT_STRING_MAX + 1];

	memcpy(raw, from, step->size);
	clean_text(clean, sizeof(clean), raw);
	memcpy(to, clean, strlen(clean));
}

/* All words of a stack. */
static void get_frames(const uint8_t *from, const struct ctf_step *step, bool big_endian,
		       uint8_t *to)
{
	for (size_t i = 0; i < EVENT_STACK_WORDS * sizeof(uint64_t); i += sizeof(uint64_t))
		ctf_store(to + i, sizeof(uint64_t),
			  ctf_get_bits(from + i, step->bit, 64, big_endian));
}

/* From the innermost frame to the callers. Returns false for an id that the tables lack. */
static bool get_stack(const struct ctf_stream *s, uint64_t id, uint8_t *to)
{
	for (unsigned int i = 0; id && i < EVENT_STACK_WORDS; i++) {
		const struct ctf_value *frame = ctf_meaning_of(s, CTF_MEANS_FRAME, id);

		if (!frame)
			return false;
		ctf_store(to + i * sizeof(uint64_t), sizeof(uint64_t), frame->word[0]);
		id = frame->word[1];
	}
	return !id;
}

static const struct ctf_value *value_of_id(const struct ctf_stream *s, const struct ctf_step *step,
					   uint64_t id)
{
	static const enum ctf_meaning kinds[] = {[CTF_CODE] = CTF_MEANS_CODE,
						 [CTF_FLAGS] = CTF_MEANS_FLAGS,
						 [CTF_STRING] = CTF_MEANS_STRING};

	return ctf_meaning_of(s, kinds[step->op], id);
}

/* Returns false for an id that the packet's tables lack. */
static bool get_named(const struct ctf_stream *s, const struct ctf_step *step, uint64_t value,
		      uint8_t *at)
{
	const struct ctf_value *named;

	switch ((enum ctf_op)step->op) {
	case CTF_NUMBER:
	case CTF_CACHE:
	case CTF_ADDRESS:
		ctf_store(at, step->size, value);
		return true;
	case CTF_SIGNED:
		ctf_store(at, step->size, (value ^ step->bias) - step->bias);
		return true;
	case CTF_PAGES:
		ctf_store(at, step->size, UINT64_C(1) << (value + CTF_ORDER_SHIFT));
		return true;
	case CTF_CODE:
	case CTF_FLAGS:
	case CTF_STRING:
		if (!value && step->op != CTF_CODE)
			return true;
		named = value_of_id(s, step, value);
		if (named)
			memcpy(at, named, step->size);
		return named;
	case CTF_STACK:
		return get_stack(s, value, at);
	case CTF_ORDER:
	case CTF_BYTES:
	case CTF_FRAMES:
	case CTF_TEXT:
		break;
	}
	return true;
}

static bool get_any(const struct ctf_stream *s, const struct ctf_step *step, const uint8_t *from,
		    bool big_endian, uint8_t *to)
{
	if (step->op == CTF_BYTES)
		get_string(from, step, to);
	else if (step->op == CTF_FRAMES)
		get_frames(from, step, big_endian, to);
	else
		return get_named(s, step,
				 ctf_get_bits(from, step->bit, step->bits, big_endian) & step->max,
				 to);
	return true;
}

static CTF_ALWAYS_INLINE bool get_steps(const struct ctf_stream *s, const struct ctf_form *form,
					const uint8_t *from, bool big_endian, uint8_t *to)
{
	const struct ctf_step *step = form->steps, *end = step + form->nr_steps;

	memset(to, 0, form->class->size);
	for (; step != end; step++) {
		const uint8_t *const at = from + step->byte;
		const bool is_usual = step->get != CTF_GET_ANY;

		if (is_usual ? !ctf_get_usual(s, step, at, big_endian, to + step->at)
			     : !get_any(s, step, at, big_endian, to + step->at))
			return false;
	}
	return true;
}

static bool get_little_endian(const struct ctf_stream *s, const struct ctf_form *form,
			      const uint8_t *from, uint8_t *to)
{
	return get_steps(s, form, from, false, to);
}

static bool get_big_endian(const struct ctf_stream *s, const struct ctf_form *form,
			   const uint8_t *from, uint8_t *to)
{
	return get_steps(s, form, from, true, to);
}

/* --- how events of a form are read ------------------------------------------------------------ */

/* Whether events of a form are records of kmem. */
static void find_record(struct ctf_form *form)
{
	const struct event_class *class = kmem_known_class(form->class);

	form->is_record = class;
	if (!class)
		return;
	form->kmem_class = (uint8_t)(class - kmem_classes);
	form->ids = kmem_ids[form->kmem_class];
}

void ctf_find_get(struct ctf_plan *plan, const struct ctf_identity *identity)
{
	for (size_t i = 0; i < plan->nr_forms; i++) {
		struct ctf_form *form = &plan->forms[i];

		find_record(form);
		form->get = identity->big_endian ? get_big_endian : ctf_get_known(form);
		if (!form->get)
			form->get = get_little_endian;
		if (!identity->big_endian && form->is_record)
			form->get_brief = ctf_get_brief(form);
	}
}

/* --- headers --------------------------------------------------------------------------------- */

size_t ctf_read_header(const struct ctf_stream *s, size_t at, size_t end, uint64_t *clock,
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
	return ctf_read_header(s, at, end, clock, id);
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

/* Records of kmem have what their class and time say, too: see kmem_record_in(). */
static inline void complete_record(const struct ctf_form *form, int64_t ns, uint8_t *bytes)
{
	if (form->is_record)
		kmem_record_complete(form->ids, ns, bytes);
}

static void set_event(const struct ctf_stream *s, const struct ctf_form *form, int64_t ns,
		      struct event *event, uint8_t *bytes)
{
	complete_record(form, ns, bytes);
	event->class = form->class;
	event->instance = s->base.instance;
	event->ns = ns;
	event->bytes = bytes;
}

static int read_form(struct ctf_stream *s, const struct ctf_form *form, size_t at,
		     struct event *event, uint8_t *bytes)
{
	if (!read_body(s, form, &at, bytes))
		return -EINVAL;
	s->at = at;
	set_event(s, form, s->has_time ? s->time : (int64_t)s->clock, event, bytes);
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
	set_event(s, form, (int64_t)clock, event, bytes);
	return at;
}

static void take_usual(struct ctf_stream *s, struct stream_room *room, const struct event *event,
		       size_t end)
{
	*room->events++ = (struct stream_event){
		.ns = event->ns,
		.end = s->packet_begin + end,
		.at = room->at,
		.class = (uint16_t)(event->class - s->base.instance->classes),
		.length = (uint16_t)(end - s->at),
	};
	room->n--;
	stream_room_use(room, event->class->size);
	s->at = end;
	s->base.index++;
	s->base.offset = s->packet_begin + end;
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

/* What a loop over such events knows that does not change. */
struct compact {
	const struct ctf_form *forms;
	size_t nr_ids;
	uint64_t clock_end;
};

/* The form of the event at `at`, and its time; NULL: it is none of those. */
static inline __attribute__((always_inline)) const struct ctf_form *
compact_form(const struct compact *c, const uint8_t *at, uint64_t clock, uint64_t *next)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	word = le32toh(word);
	*next = ctf_next_clock(clock, word >> CTF_ID_BITS, CTF_CLOCK_BITS);
	if ((word & CTF_EXTENDED) >= c->nr_ids || *next > c->clock_end)
		return NULL;
	return &c->forms[word & CTF_EXTENDED];
}

/* How many events there is room for, whatever their classes. */
static size_t nr_that_fit(const struct ctf_stream *s, const struct stream_room *room)
{
	const size_t fit = room->size / s->plan->most_class_size;

	return fit < room->n ? fit : room->n;
}

/* Mostly, events of a run are such. What changes with each is in variables of its own, as the
 * compiler takes each store of a byte for one that may change the stream. */
static void read_compact_run(struct ctf_stream *s, struct stream_room *room)
{
	const struct compact compact = {s->plan->forms, nr_compact_ids(s), s->clock_end};
	const size_t last = last_place(s), fit = nr_that_fit(s, room);
	const uint8_t *const packet = s->packet, *const at_0 = room->bytes - room->at;
	struct stream_event *out = room->events, *const end = out + fit;
	uint8_t *bytes = room->bytes;
	uint64_t clock = s->clock;
	size_t pos = s->at;

	for (; out < end && pos < last; out++) {
		uint64_t next;
		const struct ctf_form *const form =
			compact_form(&compact, packet + pos, clock, &next);

		if (!form || !form->get(s, form, packet + pos + CTF_HEADER_BYTES, bytes))
			break;
		complete_record(form, (int64_t)next, bytes);
		clock = next;
		pos += CTF_HEADER_BYTES + form->body_size;
		out->ns = (int64_t)clock;
		out->end = s->packet_begin + pos;
		out->at = (uint32_t)(bytes - at_0);
		out->class = (uint16_t)form->class_index;
		out->length = (uint16_t)(CTF_HEADER_BYTES + form->body_size);
		bytes += form->class->size;
	}
	if (out == room->events)
		return;
	s->clock = clock;
	s->at = pos;
	s->base.index += (uint64_t)(out - room->events);
	s->base.offset = s->packet_begin + pos;
	room->n -= (size_t)(out - room->events);
	room->events = out;
	stream_room_use(room, (size_t)(bytes - room->bytes));
}

void ctf_read_run(struct record_stream *base, struct stream_room *room)
{
	struct ctf_stream *s = (struct ctf_stream *)base;

	while (!s->has_time && room->size >= EVENT_MAX_SIZE) {
		struct event event;
		size_t end;

		read_compact_run(s, room);
		if (!room->n || s->at >= s->end || room->size < EVENT_MAX_SIZE)
			break;
		end = read_usual(s, &event, room->bytes);
		if (!end)
			break;
		take_usual(s, room, &event, end);
	}
}

/* As read_compact_run(). */
void ctf_read_briefs(struct record_stream *base, struct brief_room *room)
{
	struct ctf_stream *s = (struct ctf_stream *)base;
	const struct compact compact = {s->plan->forms, nr_compact_ids(s), s->clock_end};
	const size_t last = last_place(s);
	const uint8_t *const packet = s->packet;
	struct kmem_brief *out = room->briefs, *const end = out + room->n;
	uint64_t clock = s->clock;
	size_t pos = s->at;

	for (; out < end && pos < last && !s->has_time; out++) {
		uint64_t next;
		const struct ctf_form *const form =
			compact_form(&compact, packet + pos, clock, &next);

		if (!form || !form->get_brief ||
		    !form->get_brief(s, packet + pos + CTF_HEADER_BYTES, out))
			break;
		out->ns = (int64_t)next;
		out->class = form->kmem_class;
		clock = next;
		pos += CTF_HEADER_BYTES + form->body_size;
	}
	s->clock = clock;
	s->at = pos;
	s->base.index += (uint64_t)(out - room->briefs);
	if (out != room->briefs)
		s->base.offset = s->packet_begin + pos;
	room->n -= (size_t)(out - room->briefs);
	room->briefs = out;
}
