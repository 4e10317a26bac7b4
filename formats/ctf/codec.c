/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/codec.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include "formats/base/cursor.h"

/* --- events ---------------------------------------------------------------------------------- */

enum { ID_BITS = 5, CLOCK_BITS = 27 };

static void put_header(struct bit_cursor *out, uint64_t clock, const struct ctf_event *event)
{
	bit_align(out);
	/*
	 * The reader adds 2^27 when the 27 bits become smaller. A longer step needs the full
	 * clock.
	 */
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

/* --- packets --------------------------------------------------------------------------------- */

void ctf_packet_put(uint8_t out[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    const struct ctf_packet *packet)
{
	struct bit_cursor c = {.bytes = out,
			       .end = CTF_PACKET_HEADER_SIZE * 8,
			       .big_endian = identity->big_endian};

	bit_put(&c, CTF_MAGIC, 32);
	for (int i = 0; i < CTF_UUID_SIZE; i++)
		bit_put(&c, identity->uuid[i], 8);
	bit_put(&c, 0, 32); /* stream_id: there is one class of streams */
	bit_put(&c, packet->begin, 64);
	bit_put(&c, packet->end, 64);
	bit_put(&c, packet->content, 64);
	bit_put(&c, packet->size * 8, 64);
	bit_put(&c, packet->sequence, 64);
	bit_put(&c, packet->lost, 64);
	bit_put(&c, packet->cpu, 32);
}

bool ctf_packet_get(const uint8_t in[CTF_PACKET_HEADER_SIZE], const struct ctf_identity *identity,
		    struct ctf_packet *packet)
{
	struct cursor c = cursor_make(in, CTF_PACKET_HEADER_SIZE);
	uint64_t size_bits;

	c.swap = identity->big_endian;
	if (cursor_u32(&c) != CTF_MAGIC ||
	    memcmp(cursor_bytes(&c, CTF_UUID_SIZE), identity->uuid, CTF_UUID_SIZE) ||
	    cursor_u32(&c) != 0)
		return false;
	packet->begin = cursor_u64(&c);
	packet->end = cursor_u64(&c);
	packet->content = cursor_u64(&c);
	size_bits = cursor_u64(&c);
	packet->sequence = cursor_u64(&c);
	packet->lost = cursor_u64(&c);
	packet->cpu = cursor_u32(&c);
	packet->size = size_bits / 8;
	return size_bits % 8 == 0 && packet->content >= CTF_PACKET_HEADER_SIZE * 8 &&
	       packet->content <= size_bits && packet->begin <= packet->end &&
	       packet->end <= CTF_CLOCK_MAX;
}
