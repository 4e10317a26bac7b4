/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events out of a packet. Its checksum was right; nothing else is trusted. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/ctf/internal.h"
#include "formats/event/kmem-fields.h"

enum { ORDER_SHIFT = 12 };

/* --- fields ---------------------------------------------------------------------------------- */

/* The packet has CTF_PACKET_SLACK bytes behind it. */
static inline uint64_t get_little(const uint8_t *from, unsigned int bit, unsigned int bits)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	word = le64toh(word) >> bit;
	if (bits + bit > 64)
		word |= (uint64_t)from[8] << (64 - bit);
	return word;
}

/* The caller's variables stay in registers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The bits of a step, and others above them. */
static ALWAYS_INLINE uint64_t get_bits(const uint8_t *from, unsigned int bit, unsigned int bits,
				       bool big_endian)
{
	struct bit_cursor c = {
		.bytes = (uint8_t *)from, .pos = bit, .end = SIZE_MAX, .big_endian = true};

	return big_endian ? bit_get(&c, bits) : get_little(from, bit, bits);
}

static inline void store(uint8_t *at, unsigned int size, uint64_t value)
{
	uint32_t four = (uint32_t)value;
	uint16_t two = (uint16_t)value;
	uint8_t one = (uint8_t)value;

	switch (size) {
	case sizeof(one):
		memcpy(at, &one, sizeof(one));
		break;
	case sizeof(two):
		memcpy(at, &two, sizeof(two));
		break;
	case sizeof(four):
		memcpy(at, &four, sizeof(four));
		break;
	default:
		memcpy(at, &value, sizeof(value));
	}
}

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
		store(to + i, sizeof(uint64_t), get_bits(from + i, step->bit, 64, big_endian));
}

/* From the innermost frame to the callers. Returns false for an id that the tables lack. */
static bool get_stack(const struct ctf_stream *s, uint64_t id, uint8_t *to)
{
	for (unsigned int i = 0; id && i < EVENT_STACK_WORDS; i++) {
		const struct ctf_value *frame = ctf_meaning_of(s, CTF_MEANS_FRAME, id);

		if (!frame)
			return false;
		store(to + i * sizeof(uint64_t), sizeof(uint64_t), frame->word[0]);
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
		store(at, step->size, value);
		return true;
	case CTF_SIGNED:
		store(at, step->size, (value ^ step->bias) - step->bias);
		return true;
	case CTF_PAGES:
		store(at, step->size, UINT64_C(1) << (value + ORDER_SHIFT));
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
				 get_bits(from, step->bit, step->bits, big_endian) & step->max, to);
	return true;
}

/* get_any(), for what most steps are. */
static ALWAYS_INLINE bool get_usual(const struct ctf_stream *s, const struct ctf_step *step,
				    const uint8_t *from, bool big_endian, uint8_t *to)
{
	const struct ctf_value *named;
	uint64_t value;

	if (step->get == CTF_GET_IMPLIED) {
		store(to, step->size, -step->bias);
		return true;
	}
	value = get_bits(from, step->bit, step->bits, big_endian) & step->max;
	switch ((enum ctf_get)step->get) {
	case CTF_GET_NUMBER_2:
		store(to, 2, value);
		return true;
	case CTF_GET_SIGNED_4:
		store(to, 4, (value ^ step->bias) - step->bias);
		return true;
	case CTF_GET_SIGNED_8:
		store(to, 8, (value ^ step->bias) - step->bias);
		return true;
	case CTF_GET_CODE_8:
		named = ctf_meaning_of(s, CTF_MEANS_CODE, value);
		if (named)
			store(to, 8, named->word[0]);
		return named;
	case CTF_GET_FLAGS_8:
		named = value ? ctf_meaning_of(s, CTF_MEANS_FLAGS, value) : NULL;
		if (named)
			store(to, 8, named->word[0]);
		return named || !value;
	case CTF_GET_PAGES_8:
		store(to, 8, UINT64_C(1) << (value + ORDER_SHIFT));
		return true;
	default:
		store(to, 8, value);
		return true;
	}
}

static ALWAYS_INLINE bool get_steps(const struct ctf_stream *s, const struct ctf_form *form,
				    const uint8_t *from, bool big_endian, uint8_t *to)
{
	const struct ctf_step *step = form->steps, *end = step + form->nr_steps;

	memset(to, 0, form->class->size);
	for (; step != end; step++) {
		const uint8_t *const at = from + step->byte;
		const bool is_usual = step->get != CTF_GET_ANY;

		if (is_usual ? !get_usual(s, step, at, big_endian, to + step->at)
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

/* --- events of classes that are constants of this program, and frequent ------------------------
 */

/* The same, but the compiler makes code from the fields, which are constants, as is `form`. */
static ALWAYS_INLINE bool get_known(const struct ctf_stream *s, const struct event_field *fields,
				    size_t n, unsigned int form, const uint8_t *from, uint8_t *to)
{
	unsigned int pos = 0;

	memset(to, 0, sizeof(struct kmem_record));
#pragma GCC unroll 8
	for (size_t i = 0; i < n; i++) {
		const unsigned int bits = fields[i].bits[form];
		struct ctf_step step = ctf_step_of(&fields[i], ctf_op_of(&fields[i], bits), bits);

		step.bit = (uint8_t)(pos % 8);
		if (!get_usual(s, &step, from + pos / 8, false, to + step.at))
			return false;
		pos += bits;
	}
	return true;
}

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* 4- and 5-level paging; of allocations the same with a NUMA node */
enum { KNOWN_FORMS = 4 };

#define GET_FORM(name, fields, form)                                           \
	static bool name(const struct ctf_stream *s, const struct ctf_form *f, \
			 const uint8_t *from, uint8_t *to)                     \
	{                                                                      \
		(void)f;                                                       \
		return get_known(s, fields, LENGTH(fields), form, from, to);   \
	}

#define GET(name, fields)         \
	GET_FORM(name, fields, 0) \
	GET_FORM(name##_la57, fields, 1)

#define GET_NODES(name, fields)          \
	GET_FORM(name##_node, fields, 2) \
	GET_FORM(name##_node_la57, fields, 3)

GET(get_alloc, kmem_alloc_fields)
GET_NODES(get_alloc, kmem_alloc_fields)
GET(get_page_alloc, kmem_page_alloc_fields)
GET_NODES(get_page_alloc, kmem_page_alloc_fields)
GET(get_free, kmem_free_fields)
GET(get_cache_free, kmem_cache_free_fields)
GET(get_page_free, kmem_page_free_fields)

static const struct {
	const struct event_field *fields;
	size_t n;
	ctf_get_fn *get[KNOWN_FORMS];
} known[] = {
#define KNOWN(fields, ...)              \
	{                               \
		fields, LENGTH(fields), \
		{                       \
			__VA_ARGS__     \
		}                       \
	}
	KNOWN(kmem_alloc_fields, get_alloc, get_alloc_la57, get_alloc_node, get_alloc_node_la57),
	KNOWN(kmem_page_alloc_fields, get_page_alloc, get_page_alloc_la57, get_page_alloc_node,
	      get_page_alloc_node_la57),
	KNOWN(kmem_free_fields, get_free, get_free_la57),
	KNOWN(kmem_cache_free_fields, get_cache_free, get_cache_free_la57),
	KNOWN(kmem_page_free_fields, get_page_free, get_page_free_la57),
};

/* Whether fields lie in memory and on disk as those of a class in the trace do. */
static bool are_those_of(const struct event_class *class, const struct event_field *fields,
			 size_t n, unsigned int form)
{
	if (class->nr_fields != n || class->size != sizeof(struct kmem_record))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct event_field *a = &class->fields[i], *b = &fields[i];

		if (a->type != b->type || a->size != b->size || a->at != b->at ||
		    a->bits[form] != b->bits[form] || a->implied != b->implied)
			return false;
	}
	return true;
}

static ctf_get_fn *find_known(const struct ctf_form *form)
{
	for (size_t i = 0; i < LENGTH(known) && form->form < KNOWN_FORMS; i++)
		if (are_those_of(form->class, known[i].fields, known[i].n, form->form))
			return known[i].get[form->form];
	return NULL;
}

/* Whether events of a form are records of kmem. */
static void find_record(struct ctf_form *form)
{
	const struct event_class *class = kmem_known_class(form->class);

	form->is_record = class;
	if (class)
		form->ids = kmem_ids[class - kmem_classes];
}

void ctf_find_get(struct ctf_plan *plan, const struct ctf_identity *identity)
{
	for (size_t i = 0; i < plan->nr_forms; i++) {
		struct ctf_form *form = &plan->forms[i];

		find_record(form);
		form->get = identity->big_endian ? get_big_endian : find_known(form);
		if (!form->get)
			form->get = get_little_endian;
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
	const struct ctf_form *const forms = s->plan->forms;
	const size_t nr_ids = nr_compact_ids(s), last = last_place(s), fit = nr_that_fit(s, room);
	const uint8_t *const packet = s->packet, *const at_0 = room->bytes - room->at;
	struct stream_event *out = room->events, *const end = out + fit;
	uint8_t *bytes = room->bytes;
	uint64_t clock = s->clock;
	size_t pos = s->at;

	for (; out < end && pos < last; out++) {
		const struct ctf_form *form;
		uint64_t next;
		uint32_t word;

		memcpy(&word, packet + pos, sizeof(word));
		word = le32toh(word);
		next = ctf_next_clock(clock, word >> CTF_ID_BITS, CTF_CLOCK_BITS);
		form = &forms[word & CTF_EXTENDED];
		if ((word & CTF_EXTENDED) >= nr_ids || next > s->clock_end ||
		    !form->get(s, form, packet + pos + CTF_HEADER_BYTES, bytes))
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
