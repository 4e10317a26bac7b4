/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/v2.h"

#include <errno.h>
#include <string.h>
#include "formats/ctf/codec.h"

enum { ID_BITS = 5, CLOCK_BITS = 27 };

static void get_header(struct bit_cursor *in, uint64_t clock, struct v2_event *event)
{
	bit_align(in);
	event->id = (uint32_t)bit_get(in, ID_BITS);
	if (event->id != V2_EXTENDED) {
		event->clock = ctf_next_clock(clock, bit_get(in, CLOCK_BITS), CLOCK_BITS);
		return;
	}
	bit_align(in);
	event->id = (uint32_t)bit_get(in, 32);
	event->clock = bit_get(in, 64);
}

/* Returns whether it ends within V2_NAME_MAX bytes. */
static bool get_string(struct bit_cursor *in, char *text)
{
	for (size_t n = 0; n <= V2_NAME_MAX; n++) {
		text[n] = (char)bit_get(in, 8);
		if (!text[n])
			return true;
	}
	text[V2_NAME_MAX] = '\0';
	return false;
}

static bool get_field(struct bit_cursor *in, const struct v2_field *field, struct v2_event *event)
{
	bool is_signed = field->display == V2_SIGNED || field->display == V2_SIGNED_HEX;

	if (!field->bits)
		return get_string(in, event->name);
	event->values[field->member] =
		is_signed ? (uint64_t)bit_get_signed(in, field->bits) : bit_get(in, field->bits);
	return true;
}

int v2_event_get(struct bit_cursor *in, uint64_t clock, struct v2_event *event)
{
	const struct v2_field *field;

	memset(event->values, 0, sizeof(event->values));
	event->name[0] = '\0';
	get_header(in, clock, event);
	if (in->failed)
		return -ENODATA;
	if (event->id >= V2_NR_EVENTS)
		return -EINVAL;
	for (field = v2_event_classes[event->id].fields; field->name; field++) {
		if (!get_field(in, field, event))
			return -EINVAL;
	}
	return in->failed ? -ENODATA : 0;
}
