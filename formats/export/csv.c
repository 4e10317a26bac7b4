/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Comma-separated values (RFC 4180, with lines that end in a newline only). A column for each name
 * of a field; what an event has no field for is empty. A code address has its symbol in a column
 * of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/export/export.h"
#include "formats/report/digits.h"

enum { MAX_COLUMNS = 512 };

_Static_assert(2 * MAX_COLUMNS + 2 * EVENT_MAX_FIELDS * (2 * sizeof(struct text) + 4) < EXPORT_ROOM,
	       "there is room for a row");

/* What a column shows. */
struct column {
	const char *name; /* of fields */
	bool is_symbol;
};

/* For a class: which field a column shows; NULL: none. */
struct row {
	const struct event_field *fields[MAX_COLUMNS];
	const char *event; /* "kmem:kfree", owned */
};

struct csv {
	struct exporter base;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct column columns[MAX_COLUMNS];
	size_t nr_columns;
	struct row *rows; /* of the classes of all instances */
	size_t nr_rows;
	size_t first_row[TRACE_INSTANCES_MAX]; /* by instance */
};

/* --- values ---------------------------------------------------------------------------------- */

/* Spreadsheets take a text that begins so for a formula. Names are the guest's. */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@", *text);
}

static char *put_text(char *at, const char *text)
{
	if (!is_formula(text) && !strpbrk(text, ",\"")) {
		size_t length = strlen(text);

		memcpy(at, text, length);
		return at + length;
	}
	*at++ = '"';
	if (is_formula(text))
		*at++ = '\'';
	for (; *text; text++) {
		if (*text == '"')
			*at++ = '"';
		*at++ = *text;
	}
	*at++ = '"';
	return at;
}

static char *put_string(char *at, const struct event_field *field, const void *bytes)
{
	char text[EVENT_TEXT_ROOM];

	event_field_shown(field, bytes, text);
	return put_text(at, text);
}

static char *put_value(const struct csv *c, char *at, const struct event_field *field,
		       bool is_symbol, const void *bytes)
{
	uint64_t value;

	if (event_field_is_string(field))
		return put_string(at, field, bytes);
	value = event_field_value(field, bytes);
	switch (field->type) {
	case EVENT_CODE:
	case EVENT_FUNCTION:
	case EVENT_STACK:
		if (!is_symbol)
			return digits_put_hex(at, value);
		return put_text(at, event_texts_of(c->base.input.texts, field, value));
	case EVENT_DICTIONARY:
		/* 0 is none */
		return value ? put_text(at, event_texts_of(c->base.input.texts, field, value)) : at;
	case EVENT_FLAGS:
		return put_text(at, event_texts_of(c->base.input.texts, field, value));
	case EVENT_HEX:
	case EVENT_POINTER:
		return digits_put_hex(at, value);
	case EVENT_INT:
		return digits_put_signed(at, (int64_t)value);
	default:
		return digits_put_decimal(at, value);
	}
}

static int put_event(struct exporter *base, const struct event *event)
{
	struct csv *c = (struct csv *)base;
	const size_t instance = (size_t)(event->instance - c->instances);
	const struct row *row = &c->rows[c->first_row[instance] +
					 (size_t)(event->class - event->instance->classes)];
	char *at = (char *)export_room(base->input.file);

	at = digits_put_signed(at, event->ns);
	*at++ = ',';
	at = digits_put_decimal(at, event->vcpu);
	*at++ = ',';
	at = put_text(at, event->instance->name);
	*at++ = ',';
	at = put_text(at, row->event);
	for (size_t i = 0; i < c->nr_columns; i++) {
		*at++ = ',';
		if (row->fields[i])
			at = put_value(c, at, row->fields[i], c->columns[i].is_symbol,
				       event->bytes);
	}
	*at++ = '\n';
	export_took(base->input.file, (uint8_t *)at);
	return 0;
}

/* --- columns --------------------------------------------------------------------------------- */

static int add_column(struct csv *c, struct row *row, const struct event_field *field,
		      bool is_symbol)
{
	size_t i = 0;

	while (i < c->nr_columns &&
	       (c->columns[i].is_symbol != is_symbol || strcmp(c->columns[i].name, field->name)))
		i++;
	if (i == MAX_COLUMNS)
		return -E2BIG;
	if (i == c->nr_columns)
		c->columns[c->nr_columns++] = (struct column){field->name, is_symbol};
	row->fields[i] = field;
	return 0;
}

/* What is not exported needs no columns. */
static int add_row(struct csv *c, const struct trace_instance *instance,
		   const struct event_class *class)
{
	const bool is_shown = export_has_class(&c->base.input, instance, class);
	struct row *row = &c->rows[c->nr_rows++];
	char *event = NULL;
	int ret = 0;

	if (asprintf(&event, "%s:%s", class->system, class->name) < 0)
		return -ENOMEM;
	row->event = event;
	for (size_t i = 0; !ret && is_shown && i < class->nr_fields; i++) {
		ret = add_column(c, row, &class->fields[i], false);
		if (!ret && event_field_is_code(&class->fields[i]))
			ret = add_column(c, row, &class->fields[i], true);
	}
	return ret;
}

static int add_rows(struct csv *c)
{
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; i < c->nr_instances; i++)
		n += c->instances[i].nr_classes;
	c->rows = calloc(n + 1, sizeof(*c->rows));
	if (!c->rows)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < c->nr_instances; i++) {
		c->first_row[i] = c->nr_rows;
		for (size_t k = 0; !ret && k < c->instances[i].nr_classes; k++)
			ret = add_row(c, &c->instances[i], &c->instances[i].classes[k]);
	}
	return ret;
}

static void put_head(const struct csv *c)
{
	export_text(c->base.input.file, "ns,vcpu,instance,event");
	for (size_t i = 0; i < c->nr_columns; i++)
		export_printf(c->base.input.file, ",%s%s%s", c->columns[i].name,
			      event_column_suffix(c->columns[i].name),
			      c->columns[i].is_symbol ? "_symbol" : "");
	export_text(c->base.input.file, "\n");
}

/* --- the whole ------------------------------------------------------------------------------- */

static int finish(struct exporter *base, struct error *err)
{
	(void)base;
	(void)err;
	return 0;
}

static void deinit(struct exporter *base)
{
	struct csv *c = (struct csv *)base;

	for (size_t i = 0; i < c->nr_rows; i++)
		free((char *)(uintptr_t)c->rows[i].event);
	free(c->rows);
}

static int init(struct exporter *base, struct error *err)
{
	struct csv *c = (struct csv *)base;
	int ret;

	c->instances = trace_reader_instances(base->input.reader, &c->nr_instances);
	ret = add_rows(c);
	if (ret == -E2BIG)
		return error_set(err, E2BIG, "csv: more than %d columns; use jsonl", MAX_COLUMNS);
	if (ret)
		return error_set(err, ENOMEM, "out of memory");
	put_head(c);
	return 0;
}

const struct exporter_ops csv_exporter = {.size = sizeof(struct csv),
					  .init = init,
					  .event = put_event,
					  .finish = finish,
					  .deinit = deinit};
