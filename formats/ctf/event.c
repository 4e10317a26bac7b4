/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "formats/ctf/ctf.h"

enum { ID_BITS = 5, CLOCK_BITS = 27 };

static void put_header(struct bit_cursor *out, uint64_t clock, const struct ctf_event *event)
{
	bit_align(out);
	/* The reader adds a turn of the 27 bits when they become smaller: more does not show. */
	if (event->clock - clock < UINT64_C(1) << CLOCK_BITS) {
		bit_put(out, event->id, ID_BITS);
		bit_put(out, event->clock, CLOCK_BITS);
		return;
	}
	bit_put(out, CTF_EXTENDED, ID_BITS);
	bit_align(out);
	bit_put(out, event->id, 32);
	bit_put(out, event->clock, 64);
}

static void put_string(struct bit_cursor *out, const char *text)
{
	do
		bit_put(out, (unsigned char)*text, 8);
	while (*text++);
}

static void store_word(uint8_t *bytes, uint64_t word)
{
	word = htole64(word);
	memcpy(bytes, &word, sizeof(word));
}

/* As ctf_event_put(), where can_put_fast(): fields are gathered in a register, 64 bits at a time.
 */
static void put_fast(struct bit_cursor *out, const struct ctf_event *event)
{
	const struct ctf_field *field = ctf_event_classes[event->id].fields;
	uint8_t *bytes = out->bytes + bit_bytes(out);
	uint64_t word = (uint32_t)(event->clock << ID_BITS | event->id);
	unsigned int used = ID_BITS + CLOCK_BITS;

	for (; field->name; field++) {
		uint64_t value = event->values[field->member] & UINT64_MAX >> (64 - field->bits);

		word |= value << used;
		used += field->bits;
		if (used < 64)
			continue;
		store_word(bytes, word);
		bytes += sizeof(word);
		used -= 64;
		word = value >> 1 >> (field->bits - used - 1);
	}
	store_word(bytes, word);
	out->pos = (size_t)(bytes - out->bytes) * 8 + used;
}

/* Little-endian, without a string, and with space to store whole words. */
static bool can_put_fast(const struct bit_cursor *out, uint64_t clock,
			 const struct ctf_event *event)
{
	return event->id < CTF_DEFINE_SITE && event->clock - clock < UINT64_C(1) << CLOCK_BITS &&
	       !out->big_endian && !out->failed && out->pos + CTF_MAX_EVENT * 8 <= out->end;
}

void ctf_event_put(struct bit_cursor *out, uint64_t clock, const struct ctf_event *event)
{
	const struct ctf_field *field = ctf_event_classes[event->id].fields;

	if (can_put_fast(out, clock, event)) {
		put_fast(out, event);
		return;
	}
	put_header(out, clock, event);
	for (; field->name; field++) {
		if (field->bits)
			bit_put(out, event->values[field->member], field->bits);
		else
			put_string(out, event->name);
	}
}

static uint64_t next_clock(uint64_t clock, uint64_t low)
{
	uint64_t mask = (UINT64_C(1) << CLOCK_BITS) - 1;
	uint64_t next = (clock & ~mask) | low;

	return next < clock ? next + mask + 1 : next;
}

static void get_header(struct bit_cursor *in, uint64_t clock, struct ctf_event *event)
{
	bit_align(in);
	event->id = (uint32_t)bit_get(in, ID_BITS);
	if (event->id != CTF_EXTENDED) {
		event->clock = next_clock(clock, bit_get(in, CLOCK_BITS));
		return;
	}
	bit_align(in);
	event->id = (uint32_t)bit_get(in, 32);
	event->clock = bit_get(in, 64);
}

/* Returns whether it ends within CTF_NAME_MAX bytes. */
static bool get_string(struct bit_cursor *in, char *text)
{
	for (size_t n = 0; n <= CTF_NAME_MAX; n++) {
		text[n] = (char)bit_get(in, 8);
		if (!text[n])
			return true;
	}
	text[CTF_NAME_MAX] = '\0';
	return false;
}

static bool get_field(struct bit_cursor *in, const struct ctf_field *field, struct ctf_event *event)
{
	bool is_signed = field->display == CTF_SIGNED || field->display == CTF_SIGNED_HEX;

	if (!field->bits)
		return get_string(in, event->name);
	event->values[field->member] =
		is_signed ? (uint64_t)bit_get_signed(in, field->bits) : bit_get(in, field->bits);
	return true;
}

int ctf_event_get(struct bit_cursor *in, uint64_t clock, struct ctf_event *event)
{
	const struct ctf_field *field;

	memset(event->values, 0, sizeof(event->values));
	event->name[0] = '\0';
	get_header(in, clock, event);
	if (in->failed)
		return -ENODATA;
	if (event->id >= CTF_NR_EVENTS)
		return -EINVAL;
	for (field = ctf_event_classes[event->id].fields; field->name; field++) {
		if (!get_field(in, field, event))
			return -EINVAL;
	}
	return in->failed ? -ENODATA : 0;
}
