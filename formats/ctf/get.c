/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events and tables out of a packet. Its checksum was right; nothing else is trusted. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/cursor.h"
#include "formats/base/text.h"
#include "formats/ctf/internal.h"

enum { MAX_ID = UINT16_MAX };

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

static const struct ctf_value *meaning(const struct ctf_stream *s, enum ctf_meaning kind,
				       uint64_t id)
{
	const struct ctf_meanings *m = &s->meanings[kind];

	return id < m->count && m->items[id].packet == s->nr_packets ? &m->items[id].value : NULL;
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

/* The packet has CTF_PACKET_SLACK bytes behind it. */
static inline uint64_t get_little(const uint8_t *bytes, size_t pos, unsigned int bits)
{
	unsigned int used = (unsigned int)(pos % 8);
	uint64_t word;

	memcpy(&word, bytes + pos / 8, sizeof(word));
	word = le64toh(word) >> used;
	if (bits + used > 64)
		word |= (uint64_t)bytes[pos / 8 + 8] << (64 - used);
	return word;
}

/* The caller's variables stay in registers. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Where an event is read: what the compiler would otherwise load again behind each store. */
struct place {
	const struct ctf_stream *stream;
	const uint8_t *packet;
	uint8_t *bytes;
	size_t pos; /* bits */
};

static ALWAYS_INLINE uint64_t get_bits(struct place *p, unsigned int bits, bool big_endian)
{
	struct bit_cursor c = {
		.bytes = (uint8_t *)p->packet, .pos = p->pos, .end = SIZE_MAX, .big_endian = true};

	p->pos += bits;
	return big_endian ? bit_get(&c, bits) : get_little(p->packet, c.pos, bits);
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

/* A string as it is, from the next byte behind `pos` on. Returns where it ends. */
static size_t get_string(const uint8_t *packet, const struct ctf_step *step, size_t pos,
			 uint8_t *to)
{
	char raw[EVENT_STRING_MAX + 1] = "", clean[EVENT_STRING_MAX + 1];

	pos = (pos + 7) / 8 * 8;
	memcpy(raw, packet + pos / 8, step->size);
	clean_text(clean, sizeof(clean), raw);
	memcpy(to, clean, strlen(clean));
	return pos + 8u * step->size;
}

/* All words of a stack. */
static ALWAYS_INLINE void get_frames(struct place *p, const struct ctf_step *step, bool big_endian)
{
	for (unsigned int i = 0; i < EVENT_STACK_WORDS; i++)
		store(p->bytes + step->at + i * sizeof(uint64_t), sizeof(uint64_t),
		      get_bits(p, 64, big_endian));
}

/* From the innermost frame to the callers. Returns false for an id that the tables lack. */
static bool get_stack(const struct place *p, const struct ctf_step *step, uint64_t id)
{
	uint8_t *at = p->bytes + step->at;

	for (unsigned int i = 0; id && i < EVENT_STACK_WORDS; i++) {
		const struct ctf_value *frame = meaning(p->stream, CTF_MEANS_FRAME, id);

		if (!frame)
			return false;
		store(at + i * sizeof(uint64_t), sizeof(uint64_t), frame->word[0]);
		id = frame->word[1];
	}
	return !id;
}

static const struct ctf_value *value_of_id(const struct place *p, const struct ctf_step *step,
					   uint64_t id)
{
	static const enum ctf_meaning kinds[] = {[CTF_CODE] = CTF_MEANS_CODE,
						 [CTF_FLAGS] = CTF_MEANS_FLAGS,
						 [CTF_STRING] = CTF_MEANS_STRING};

	return meaning(p->stream, kinds[step->op], id);
}

/* Returns false for an id that the packet's tables lack. */
static bool get_any(const struct place *p, const struct ctf_step *step, uint64_t value)
{
	enum { ORDER_SHIFT = 12 };
	uint8_t *at = p->bytes + step->at;
	const struct ctf_value *named;

	switch ((enum ctf_op)step->op) {
	case CTF_NUMBER:
	case CTF_CACHE:
	case CTF_ADDRESS:
		store(at, step->size, step->bits ? value : -step->bias);
		return true;
	case CTF_SIGNED:
		value = step->bits ? (value ^ step->bias) - step->bias : -step->bias;
		store(at, step->size, value);
		return true;
	case CTF_PAGES:
		store(at, step->size, UINT64_C(1) << (value + ORDER_SHIFT));
		return true;
	case CTF_CODE:
	case CTF_FLAGS:
	case CTF_STRING:
		if (!value && step->op != CTF_CODE)
			return true;
		named = value_of_id(p, step, value);
		if (named)
			memcpy(at, named, step->size);
		return named;
	case CTF_STACK:
		return get_stack(p, step, value);
	case CTF_ORDER:
	case CTF_BYTES:
	case CTF_FRAMES:
		break;
	}
	return true;
}

#define OP_OF_SIZE(op, size) ((unsigned int)(op) << 8 | (size))

/* get_any(), with what most fields are at one jump's distance. */
static ALWAYS_INLINE bool get_step(struct place *p, const struct ctf_step *step, bool big_endian)
{
	uint8_t *at = p->bytes + step->at;
	const struct ctf_value *named;
	uint64_t value;

	if (step->op == CTF_BYTES) {
		p->pos = get_string(p->packet, step, p->pos, at);
		return true;
	}
	if (step->op == CTF_FRAMES) {
		get_frames(p, step, big_endian);
		return true;
	}
	value = get_bits(p, step->bits, big_endian) & step->max;
	switch (step->bits ? OP_OF_SIZE(step->op, step->size) : 0) {
	case OP_OF_SIZE(CTF_NUMBER, 8):
		store(at, 8, value);
		return true;
	case OP_OF_SIZE(CTF_CACHE, 2):
		store(at, 2, value);
		return true;
	case OP_OF_SIZE(CTF_SIGNED, 8):
		store(at, 8, (value ^ step->bias) - step->bias);
		return true;
	case OP_OF_SIZE(CTF_CODE, 8):
		named = meaning(p->stream, CTF_MEANS_CODE, value);
		if (named)
			store(at, 8, named->word[0]);
		return named;
	case OP_OF_SIZE(CTF_FLAGS, 4):
		named = value ? meaning(p->stream, CTF_MEANS_FLAGS, value) : NULL;
		if (named)
			store(at, 4, named->word[0]);
		return named || !value;
	default:
		return get_any(p, step, value);
	}
}

static ALWAYS_INLINE bool get_steps(struct ctf_stream *s, const struct ctf_form *form, size_t *pos,
				    bool big_endian)
{
	const struct ctf_step *step = form->steps, *end = step + form->nr_steps;
	struct place place = {s, s->packet, s->bytes, *pos};

	for (; step != end; step++)
		if (!get_step(&place, step, big_endian))
			return false;
	*pos = place.pos;
	return true;
}

/* Compiled twice, as each event of a trace has the same byte order. */
static bool get_form(struct ctf_stream *s, const struct ctf_form *form, size_t *pos)
{
	if (s->decoder->described.identity.big_endian)
		return get_steps(s, form, pos, true);
	return get_steps(s, form, pos, false);
}

static int read_form(struct ctf_stream *s, const struct ctf_form *form, size_t at,
		     struct event *event)
{
	size_t pos = at * 8;

	memset(s->bytes, 0, form->class->size);
	if (!get_form(s, form, &pos))
		return -EINVAL;
	s->at = (pos + 7) / 8;
	if (s->at > s->end)
		return -EINVAL;
	*event = (struct event){.class = form->class,
				.instance = s->instance,
				.ns = s->has_time ? s->time : (int64_t)s->clock,
				.bytes = s->bytes};
	s->has_time = false;
	return 1;
}

static int read_time(struct ctf_stream *s, size_t at)
{
	struct place place = {.packet = s->packet, .pos = at * 8};

	s->time = (int64_t)get_bits(&place, 64, s->decoder->described.identity.big_endian);
	s->has_time = true;
	s->at = place.pos / 8;
	return s->at <= s->end ? 0 : -EINVAL;
}

int ctf_read_event(struct ctf_stream *s, struct event *event)
{
	uint64_t clock = s->clock;
	uint32_t id;
	size_t header = read_header(s, s->at, s->end, &clock, &id);

	if (!header || clock < s->clock || clock > s->clock_end)
		return -EINVAL;
	s->clock = clock;
	if (id < s->plan->nr_forms)
		return read_form(s, &s->plan->forms[id], s->at + header, event);
	return id == ctf_plan_id(s->plan, CTF_TIME) ? read_time(s, s->at + header) : -EINVAL;
}
