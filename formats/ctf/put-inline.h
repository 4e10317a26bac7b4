/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_PUT_INLINE_H
#define SONDE_FORMATS_CTF_PUT_INLINE_H

#include <endian.h>
#include <string.h>
#include "formats/ctf/put-internal.h"

/*
 * An event of a class that is a constant of this program: the compiler makes code for each form
 * from its fields. The bytes are those of the loop in put.c, which serves all other classes, all
 * other forms, and big-endian traces.
 */
#define INLINE inline __attribute__((always_inline))

static INLINE uint64_t load(const struct event_field *field, const uint8_t *bytes)
{
	uint8_t one;
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	bytes += field->at;
	switch (field->size) {
	case sizeof(one):
		return *bytes;
	case sizeof(two):
		memcpy(&two, bytes, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, bytes, sizeof(four));
		return field->type == EVENT_INT ? (uint64_t)(int64_t)(int32_t)four : four;
	default:
		memcpy(&eight, bytes, sizeof(eight));
		return eight;
	}
}

static INLINE bool fits(uint64_t value, unsigned int bits)
{
	return value >> bits == 0;
}

static INLINE bool fits_signed(uint64_t value, unsigned int bits)
{
	return (value + (UINT64_C(1) << (bits - 1))) >> bits == 0;
}

/* What a field has on disk, in less bits than in memory. Returns false if it does not fit. */
static INLINE bool get_bits(struct ctf_writer *w, struct ctf_values_search *code,
			    const struct event_field *field, unsigned int bits,
			    const uint8_t *bytes, uint64_t *out)
{
	uint64_t value;

	if (field->type == EVENT_STRING) {
		*out = ctf_string_id(w, bytes + field->at, field->size);
		return (*out || !bytes[field->at]) && fits(*out, bits);
	}
	value = load(field, bytes);
	*out = value;
	switch (field->type) {
	case EVENT_CODE:
	case EVENT_FUNCTION:
		return ctf_values_next_id(&w->code, code, value, out) && fits(*out, bits);
	case EVENT_FLAGS:
		*out = ctf_flags_id(w, value);
		return (*out || !value) && fits(*out, bits);
	case EVENT_DICTIONARY:
		if (!fits(value, bits))
			return false;
		ctf_note_cache(w, (uint16_t)value);
		return true;
	case EVENT_PAGES:
		*out = ctf_order_of(value);
		return fits(*out, bits);
	case EVENT_INT:
	case EVENT_POINTER:
		*out = value & (UINT64_MAX >> (64 - bits));
		return fits_signed(value, bits);
	default:
		return fits(value, bits);
	}
}

/* Bytes of an event on disk. */
static INLINE size_t size_of(const struct event_field *fields, size_t n, unsigned int form)
{
	unsigned int bits = 8 * CTF_HEADER_BYTES;

#pragma GCC unroll 16
	for (size_t i = 0; i < n; i++)
		bits += fields[i].bits[form];
	return (bits + 7) / 8;
}

enum { MAX_WORDS = 7 };

/* `fields` and all numbers are constants. Returns false if the form cannot express the event. */
static INLINE bool put_at(struct ctf_writer *w, struct ctf_values_search *code,
			  const struct event_field *fields, size_t n, unsigned int form,
			  uint64_t header, const uint8_t *bytes, uint8_t *at)
{
	uint64_t words[MAX_WORDS + 1] = {header};
	unsigned int pos = 8 * CTF_HEADER_BYTES;

	/* a constant: such a form is left to the loop over steps */
	if (size_of(fields, n, form) > sizeof(uint64_t) * MAX_WORDS)
		return false;
#pragma GCC unroll 16
	for (size_t i = 0; i < n; i++) {
		const unsigned int bits = fields[i].bits[form];
		uint64_t value;

		if (!bits) {
			if (load(&fields[i], bytes) != (uint64_t)(int64_t)fields[i].implied)
				return false;
			continue;
		}
		if (!get_bits(w, code, &fields[i], bits, bytes, &value))
			return false;
		words[pos / 64] |= value << pos % 64;
		if (pos % 64 + bits > 64)
			words[pos / 64 + 1] = value >> (64 - pos % 64);
		pos += bits;
	}
#pragma GCC unroll 8
	for (unsigned int i = 0; 64 * i < pos; i++)
		ctf_store_word(at + i * sizeof(uint64_t), words[i]);
	return true;
}

static INLINE bool put(struct ctf_writer *w, const struct event_field *fields, size_t n,
		       unsigned int form, uint64_t header, const uint8_t *bytes)
{
	struct ctf_values_search code = ctf_values_search(&w->code);

	if (!put_at(w, &code, fields, n, form, header, bytes, w->bytes + w->used))
		return false;
	w->used += size_of(fields, n, form);
	return true;
}

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define PUT(name, fields, form)                                                           \
	static bool name(struct ctf_writer *w, const struct ctf_form *f, uint64_t header, \
			 const uint8_t *bytes)                                            \
	{                                                                                 \
		(void)f;                                                                  \
		return put(w, fields, LENGTH(fields), form, header, bytes);               \
	}

/* An event behind what is at `at`; `id` is that of its class's first form. Returns its bytes; 0: no
 * form that is known can express it. */
typedef size_t put_one_fn(struct ctf_writer *w, struct ctf_values_search *code, unsigned int class,
			  uint64_t id, uint64_t ns, const uint8_t *bytes, uint8_t *at);

/* A ctf_put_mix_fn. `put_one` is a constant. */
static INLINE size_t put_each(struct ctf_writer *w, const struct event_mix *mix, size_t n,
			      put_one_fn *put_one)
{
	const struct ctf_form *const *first = w->plan->first;
	struct ctf_values_search code = ctf_values_search(&w->code);
	const uint8_t *bytes = mix->bytes;
	const int64_t *stamp = mix->ns;
	uint8_t *at = w->bytes + w->used;
	size_t i, size;

	for (i = 0; i < n; i++, bytes += mix->stride, stamp = event_mix_next(mix, stamp)) {
		const unsigned int class = mix->classes[i];

		size = put_one(w, &code, class, first[class]->id, (uint64_t)*stamp, bytes, at);
		if (!size)
			break;
		at += size;
		w->base.gathered.n[class]++;
	}
	w->used = (size_t)(at - w->bytes);
	return i;
}

#endif
