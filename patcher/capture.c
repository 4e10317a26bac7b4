/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/capture.h"

#include <errno.h>
#include <string.h>

static const uint32_t all_args = CAPTURE(FIELD_ARG0) | CAPTURE(FIELD_ARG1) | CAPTURE(FIELD_ARG2) |
				 CAPTURE(FIELD_ARG3) | CAPTURE(FIELD_ARG4) | CAPTURE(FIELD_ARG5);

static int check(const struct capture *c, struct error *err)
{
	uint32_t possible = CAPTURE(FIELD_COUNT) - 1;

	if (c->kind == RING_ENTRY)
		possible &= ~(CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE));
	else if (c->kind == RING_RETURN)
		possible &= ~all_args;
	else
		return error_set(err, EINVAL, "no trampoline writes records of kind %d", c->kind);
	if (c->fields & ~possible)
		return error_set(err, EINVAL, "fields %#x cannot be had at a function's %s",
				 c->fields & ~possible, c->kind == RING_ENTRY ? "entry" : "return");
	if ((c->fields & CAPTURE(FIELD_STACK)) &&
	    (!c->stack_words || c->stack_words > CAPTURE_MAX_STACK))
		return error_set(err, EINVAL, "%u words of stack asked for, %d are the most",
				 c->stack_words, CAPTURE_MAX_STACK);
	return 0;
}

static uint32_t field_size(const struct capture *c, enum record_field field)
{
	if (field == FIELD_COMM)
		return CAPTURE_COMM_SIZE;
	if (field == FIELD_STACK)
		return c->stack_words * 8u;
	return 8;
}

_Static_assert(sizeof(struct ring_record) + 8 * FIELD_STACK + 8 + 8 * CAPTURE_MAX_STACK <=
		       RING_MAX_RECORD,
	       "every description fits a record");

int record_layout(const struct capture *capture, struct record_layout *out, struct error *err)
{
	int ret = check(capture, err);

	if (ret)
		return ret;
	memset(out, 0, sizeof(*out));
	out->size = sizeof(struct ring_record);
	for (unsigned int field = 0; field < FIELD_COUNT; field++) {
		if (!(capture->fields & CAPTURE(field)))
			continue;
		out->offset[field] = (uint16_t)out->size;
		out->size += field_size(capture, field);
	}
	return 0;
}
