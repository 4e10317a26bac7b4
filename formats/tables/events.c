/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of events. What most events of kmem have is a column; all other fields of an event are
 * a JSON object in one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/export/export.h"
#include "formats/report/digits.h"
#include "formats/tables/table.h"

enum {
	HOST,
	NS,
	VCPU,
	INSTANCE,
	EVENT,
	CALL_SITE,
	SYMBOL,
	PTR,
	BYTES_REQ,
	BYTES_ALLOC,
	CACHE,
	GFP_FLAGS,
	NODE,
	FIELDS,
	NR_COLUMNS
};

static const struct table_column columns[] = {
	[HOST] = {"host", TABLE_NAME},          [NS] = {"ns", TABLE_I64},
	[VCPU] = {"vcpu", TABLE_U32},           [INSTANCE] = {"instance", TABLE_NAME},
	[EVENT] = {"event", TABLE_NAME},        [CALL_SITE] = {"call_site", TABLE_U64},
	[SYMBOL] = {"symbol", TABLE_NAME},      [PTR] = {"ptr", TABLE_U64},
	[BYTES_REQ] = {"bytes_req", TABLE_U64}, [BYTES_ALLOC] = {"bytes_alloc", TABLE_U64},
	[CACHE] = {"cache", TABLE_NAME},        [GFP_FLAGS] = {"gfp_flags", TABLE_NAME},
	[NODE] = {"node", TABLE_I32},           [FIELDS] = {"fields", TABLE_TEXT},
};

_Static_assert((int)NR_COLUMNS <= (int)TABLE_COLUMNS_MAX, "there is room for a row");

const struct table_schema events_schema = {"events", columns, NR_COLUMNS};

enum { NO_NODE = -1, NAME_BYTES = 64 /* of a field, quoted */ };

/* For a class: which field a column shows, and which have none. */
struct row {
	const struct event_field *fields[NR_COLUMNS];
	const struct event_field *others[EVENT_MAX_FIELDS];
	size_t nr_others;
	char *event; /* "kmem:kfree" */
};

struct events {
	struct exporter base;
	struct table_writer *writer;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct row *rows; /* of the classes of all instances */
	size_t nr_rows;
	size_t first_row[TRACE_INSTANCES_MAX]; /* by instance */
	/* A field may have two names. Each character of a text may be escaped. */
	char json[EVENT_MAX_FIELDS * (4 * NAME_BYTES + 2 * (sizeof(struct text) + DIGITS_ROOM)) +
		  8];
};

/* --- fields without a column ----------------------------------------------------------------- */

static char *put_quoted(char *at, const char *text)
{
	*at++ = '"';
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			*at++ = '\\';
		*at++ = *text;
	}
	*at++ = '"';
	return at;
}

static char *put_address(char *at, uint64_t value)
{
	*at++ = '"';
	at = digits_put_hex(at, value);
	*at++ = '"';
	return at;
}

/* Functions may share a name, or have none: the address tells them apart. */
static char *put_code(const struct events *e, char *at, const struct event_field *field,
		      uint64_t value)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s_symbol", field->name);
	at = put_address(at, value);
	*at++ = ',';
	at = put_quoted(at, name);
	*at++ = ':';
	return put_quoted(at, event_texts_of(e->base.input.texts, field, value));
}

static char *put_value(const struct events *e, char *at, const struct event_field *field,
		       const void *bytes)
{
	char text[EVENT_TEXT_ROOM];
	uint64_t value;

	if (event_field_is_string(field)) {
		event_field_shown(field, bytes, text);
		return put_quoted(at, text);
	}
	value = event_field_value(field, bytes);
	switch (field->type) {
	case EVENT_CODE:
	case EVENT_FUNCTION:
	case EVENT_STACK:
		return put_code(e, at, field, value);
	case EVENT_FLAGS:
	case EVENT_DICTIONARY:
		return put_quoted(at, event_texts_of(e->base.input.texts, field, value));
	case EVENT_HEX:
	case EVENT_POINTER:
		return put_address(at, value);
	case EVENT_INT:
		return digits_put_signed(at, (int64_t)value);
	default:
		return digits_put_decimal(at, value);
	}
}

static const char *others(struct events *e, const struct row *row, const void *bytes)
{
	char *at = e->json;

	if (!row->nr_others)
		return "";
	for (size_t i = 0; i < row->nr_others; i++) {
		*at++ = i ? ',' : '{';
		at = put_quoted(at, row->others[i]->name);
		*at++ = ':';
		at = put_value(e, at, row->others[i], bytes);
	}
	*at++ = '}';
	*at = '\0';
	return e->json;
}

/* --- rows ------------------------------------------------------------------------------------ */

static uint64_t number(const struct row *row, int column, const void *bytes)
{
	return row->fields[column] ? event_field_value(row->fields[column], bytes) : 0;
}

/* A text in `to`, as texts are valid until the next one is asked for. 0 is none. */
static struct table_value name(const struct events *e, const struct row *row, int column,
			       const void *bytes, struct text *to)
{
	const uint64_t value = number(row, column, bytes);

	const char *text =
		value ? event_texts_of(e->base.input.texts, row->fields[column], value) : "";
	const size_t length = strnlen(text, sizeof(to->s) - 1);

	memcpy(to->s, text, length);
	to->s[length] = '\0';
	return (struct table_value){value, to->s};
}

static int put_event(struct exporter *base, const struct event *event)
{
	struct events *e = (struct events *)base;
	const size_t instance = (size_t)(event->instance - e->instances);
	const size_t class = (size_t)(event->class - event->instance->classes);
	const struct row *row = &e->rows[e->first_row[instance] + class];
	const void *bytes = event->bytes;
	struct text symbol, cache, flags;
	const struct table_value values[NR_COLUMNS] = {
		[HOST] = {0, base->input.host},
		[NS] = {(uint64_t)event->ns, NULL},
		[VCPU] = {event->vcpu, NULL},
		[INSTANCE] = {instance, event->instance->name},
		[EVENT] = {(uintptr_t)row, row->event},
		[CALL_SITE] = {number(row, CALL_SITE, bytes), NULL},
		[SYMBOL] = name(e, row, CALL_SITE, bytes, &symbol),
		[PTR] = {number(row, PTR, bytes), NULL},
		[BYTES_REQ] = {number(row, BYTES_REQ, bytes), NULL},
		[BYTES_ALLOC] = {number(row, BYTES_ALLOC, bytes), NULL},
		[CACHE] = name(e, row, CACHE, bytes, &cache),
		[GFP_FLAGS] = name(e, row, GFP_FLAGS, bytes, &flags),
		[NODE] = {row->fields[NODE] ? number(row, NODE, bytes) : (uint64_t)NO_NODE, NULL},
		[FIELDS] = {0, others(e, row, bytes)},
	};

	return e->writer->ops->put(e->writer, values);
}

/* --- which field goes where ------------------------------------------------------------------ */

static bool fits(int column, const struct event_field *field)
{
	switch (column) {
	case CALL_SITE:
		return event_field_is_code(field);
	case CACHE:
		return field->type == EVENT_DICTIONARY;
	case GFP_FLAGS:
		return field->type == EVENT_FLAGS;
	case NODE:
		return field->type == EVENT_INT && field->size <= sizeof(int32_t);
	case PTR:
	case BYTES_REQ:
	case BYTES_ALLOC:
		return !event_field_is_string(field) && field->type != EVENT_INT;
	default:
		return false;
	}
}

static void place(struct row *row, const struct event_field *field)
{
	for (int column = 0; column < NR_COLUMNS; column++) {
		if (!strcmp(columns[column].name, field->name) && fits(column, field)) {
			row->fields[column] = field;
			return;
		}
	}
	row->others[row->nr_others++] = field;
}

static int add_row(struct events *e, const struct event_class *class)
{
	struct row *row = &e->rows[e->nr_rows++];

	if (asprintf(&row->event, "%s:%s", class->system, class->name) < 0) {
		row->event = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < class->nr_fields; i++)
		place(row, &class->fields[i]);
	return 0;
}

static int add_rows(struct events *e)
{
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; i < e->nr_instances; i++)
		n += e->instances[i].nr_classes;
	e->rows = calloc(n + 1, sizeof(*e->rows));
	if (!e->rows)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < e->nr_instances; i++) {
		e->first_row[i] = e->nr_rows;
		for (size_t k = 0; !ret && k < e->instances[i].nr_classes; k++)
			ret = add_row(e, &e->instances[i].classes[k]);
	}
	return ret;
}

/* --- the exports ----------------------------------------------------------------------------- */

static int finish(struct exporter *base, struct error *err)
{
	struct events *e = (struct events *)base;

	return e->writer->ops->finish(e->writer) ? error_set(err, ENOMEM, "out of memory") : 0;
}

static void deinit(struct exporter *base)
{
	struct events *e = (struct events *)base;

	for (size_t i = 0; i < e->nr_rows; i++)
		free(e->rows[i].event);
	free(e->rows);
	if (e->writer)
		e->writer->ops->destroy(e->writer);
}

static int init(struct exporter *base, const struct table_writer_ops *ops, struct error *err)
{
	struct events *e = (struct events *)base;

	e->instances = trace_reader_instances(base->input.reader, &e->nr_instances);
	e->writer = ops->create(base->input.file, &events_schema);
	return e->writer && !add_rows(e) ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int init_parquet(struct exporter *base, struct error *err)
{
	return init(base, &parquet_table, err);
}

static int init_rowbinary(struct exporter *base, struct error *err)
{
	return init(base, &rowbinary_table, err);
}

const struct exporter_ops parquet_exporter = {.takes_host = true,
					      .size = sizeof(struct events),
					      .init = init_parquet,
					      .event = put_event,
					      .finish = finish,
					      .deinit = deinit};
const struct exporter_ops rowbinary_exporter = {.takes_host = true,
						.size = sizeof(struct events),
						.init = init_rowbinary,
						.event = put_event,
						.finish = finish,
						.deinit = deinit};
