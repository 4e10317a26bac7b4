/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_EVENT_FORMAT_H
#define SONDE_TESTS_LIB_EVENT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/base/error.h"

/*
 * The text that tracefs has in events/SYSTEM/NAME/format (Documentation/trace/events.rst, section
 * "Event formats"): the event's number and where its fields lie in the record.
 */
#define EVENT_NAME_MAX 48
#define EVENT_FIELDS_MAX 24

struct event_field {
	char name[EVENT_NAME_MAX];
	uint32_t offset; /* bytes from the start of the record */
	uint32_t size;   /* bytes */
};

struct event_format {
	char name[EVENT_NAME_MAX];
	uint32_t id;
	uint32_t field_count;
	struct event_field fields[EVENT_FIELDS_MAX];
};

/*
 * Parse `size` bytes at `text`, which need not end in a NUL. Also reads events/header_page, which
 * has fields but neither name nor id. -EINVAL: a malformed or oversized text.
 */
int event_format_parse(const char *text, size_t size, struct event_format *out, struct error *err);

/* The field of that name, or NULL. */
const struct event_field *event_format_field(const struct event_format *format, const char *name);

/*
 * Read an integer field of 1, 2, 4 or 8 bytes, little-endian and zero-extended. False if the field
 * is NULL, has another size, or does not lie within the record's `size` bytes.
 */
bool event_field_read(const struct event_field *field, const void *record, size_t size,
		      uint64_t *value);

#endif
