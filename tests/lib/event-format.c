// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/event-format.h"

#define LINE_MAX_BYTES 256

/* The declared name is the last word of "unsigned long call_site" or "char name[16]". */
static bool declared_name(const char *declaration, char *name)
{
	size_t end = strlen(declaration), start;
	const char *bracket = strrchr(declaration, '[');

	/* An array's length comes after the name; "char[] name" has none. */
	if (bracket && declaration[end - 1] == ']')
		end = (size_t)(bracket - declaration);
	while (end > 0 && isspace((unsigned char)declaration[end - 1]))
		end--;
	for (start = end; start > 0; start--)
		if (isspace((unsigned char)declaration[start - 1]) || declaration[start - 1] == '*')
			break;
	if (end == start || end - start >= EVENT_NAME_MAX)
		return false;
	memcpy(name, declaration + start, end - start);
	name[end - start] = '\0';
	return true;
}

static int parse_field(const char *line, struct event_format *out, struct error *err)
{
	char declaration[LINE_MAX_BYTES];
	struct event_field *field = &out->fields[out->field_count];

	if (out->field_count == EVENT_FIELDS_MAX)
		return error_set(err, EINVAL, "event format: more than %d fields",
				 EVENT_FIELDS_MAX);
	if (sscanf(line, " field:%255[^;]; offset:%u; size:%u;", declaration, &field->offset,
		   &field->size) != 3 ||
	    !declared_name(declaration, field->name))
		return error_set(err, EINVAL, "event format: cannot read '%s'", line);
	out->field_count++;
	return 0;
}

static int parse_line(const char *line, struct event_format *out, struct error *err)
{
	const char *word = line + strspn(line, " \t");

	if (strncmp(word, "field:", 6) == 0)
		return parse_field(line, out, err);
	/* EVENT_NAME_MAX - 1 characters at most. */
	sscanf(line, "name: %47s", out->name);
	sscanf(line, "ID: %u", &out->id);
	return 0;
}

int event_format_parse(const char *text, size_t size, struct event_format *out, struct error *err)
{
	char line[LINE_MAX_BYTES];
	size_t at, length;
	int ret;

	memset(out, 0, sizeof(*out));
	for (at = 0; at < size; at += length + 1) {
		const char *end = memchr(text + at, '\n', size - at);

		length = end ? (size_t)(end - text) - at : size - at;
		/* Only the print format is ever longer, and nobody needs it. */
		if (length >= sizeof(line))
			continue;
		memcpy(line, text + at, length);
		line[length] = '\0';
		ret = parse_line(line, out, err);
		if (ret)
			return ret;
	}
	if (out->field_count == 0)
		return error_set(err, EINVAL, "event format: no fields");
	return 0;
}

const struct event_field *event_format_field(const struct event_format *format, const char *name)
{
	uint32_t i;

	for (i = 0; i < format->field_count; i++)
		if (strcmp(format->fields[i].name, name) == 0)
			return &format->fields[i];
	return NULL;
}

bool event_field_read(const struct event_field *field, const void *record, size_t size,
		      uint64_t *value)
{
	*value = 0;
	if (!field || field->size == 0 || field->size > sizeof(*value) ||
	    (field->size & (field->size - 1)) != 0 || field->offset > size ||
	    field->size > size - field->offset)
		return false;
	memcpy(value, (const char *)record + field->offset, field->size);
	return true;
}
