/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/event-lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/report/event-text.h"
#include "formats/trace/reader.h"
#include "tests/lib/tap.h"

void event_lines_add(struct event_lines *lines, const char *fmt, ...)
{
	va_list ap;

	if (lines->n == lines->room) {
		lines->room = lines->room ? 2 * lines->room : 1024;
		lines->at = reallocarray(lines->at, lines->room, sizeof(*lines->at));
		if (!lines->at)
			abort();
	}
	va_start(ap, fmt);
	if (vasprintf(&lines->at[lines->n++], fmt, ap) < 0)
		abort();
	va_end(ap);
}

static void print_value(FILE *out, const struct event_names *names, const struct event_field *field,
			const void *bytes)
{
	char text[640];

	switch (field->type) {
	case EVENT_STRING:
	case EVENT_LONG_STRING:
		event_field_shown(field, bytes, text);
		fputs(text, out);
		return;
	case EVENT_CODE:
	case EVENT_FUNCTION:
	case EVENT_DICTIONARY:
	case EVENT_FLAGS:
		names->text(names->arg, field, event_field_value(field, bytes), text, sizeof(text));
		fputs(text, out);
		return;
	case EVENT_INT:
		fprintf(out, "%" PRId64, (int64_t)event_field_value(field, bytes));
		return;
	default:
		fprintf(out, "%" PRIu64, event_field_value(field, bytes));
	}
}

static void add_event(struct event_lines *lines, const struct event_names *names,
		      const struct event *event)
{
	char *fields = NULL;
	size_t size;
	FILE *out = open_memstream(&fields, &size);

	if (!out)
		abort();
	for (size_t i = 0; i < event->class->nr_fields; i++) {
		fprintf(out, " %s=", event->class->fields[i].name);
		print_value(out, names, &event->class->fields[i], event->bytes);
	}
	if (fclose(out))
		abort();
	event_lines_add(lines, "%u %" PRId64 " %s %s:%s%s", event->vcpu, event->ns,
			event->instance->name, event->class->system, event->class->name, fields);
	free(fields);
}

void event_lines_of_trace(struct event_lines *lines, const char *dir)
{
	struct trace_reader *reader;
	struct event_texts *texts;
	struct event event;

	if (trace_reader_open(dir, &reader, NULL) ||
	    event_texts_create(trace_reader_sidecar(reader), &texts, NULL))
		abort();
	while (trace_reader_next(reader, &event, NULL) > 0)
		add_event(lines, event_texts_names(texts), &event);
	event_texts_destroy(texts);
	trace_reader_close(reader);
}

static int compare(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

void event_lines_free(struct event_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->at[i]);
	free(lines->at);
	*lines = (struct event_lines){0};
}

void event_lines_compare(struct event_lines *got, struct event_lines *want, const char *reader)
{
	const size_t both = got->n < want->n ? got->n : want->n;
	size_t i = 0;

	if (got->n)
		qsort(got->at, got->n, sizeof(*got->at), compare);
	if (want->n)
		qsort(want->at, want->n, sizeof(*want->at), compare);
	ok(got->n == want->n, "%s reads %zu events of %zu", reader, got->n, want->n);
	while (i < both && !strcmp(got->at[i], want->at[i]))
		i++;
	if (!ok(i == want->n, "%s reads each with its vCPU, time, name and fields", reader) &&
	    i < both)
		tap_diag("got  %s\n# want %s", got->at[i], want->at[i]);
	event_lines_free(got);
	event_lines_free(want);
}
