/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Made for millions of lines: no printf() on the way of an event. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/report/event-text-internal.h"

enum {
	BUFFER_BYTES = 1 << 18,
	LINE_BYTES = 1 << 14, /* the longest line: 16 fields with texts of 640 bytes */
	NS_DIGITS = 9,
	TIME_WIDTH = 5, /* of whole seconds */
};

struct event_printer {
	int fd;
	bool json;
	struct event_texts *texts;
	size_t used;
	char buffer[BUFFER_BYTES];
};

int event_printer_create(int fd, bool json, struct event_texts *texts, struct event_printer **out,
			 struct error *err)
{
	struct event_printer *p = malloc(sizeof(*p));

	if (!p)
		return error_set(err, ENOMEM, "out of memory");
	p->fd = fd;
	p->json = json;
	p->texts = texts;
	p->used = 0;
	*out = p;
	return 0;
}

void event_printer_destroy(struct event_printer *printer)
{
	free(printer);
}

int event_printer_flush(struct event_printer *p)
{
	size_t done = 0;

	while (done < p->used) {
		ssize_t n = write(p->fd, p->buffer + done, p->used - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	p->used = 0;
	return 0;
}

static char *put_text(char *at, const char *text)
{
	size_t length = strlen(text);

	memcpy(at, text, length);
	return at + length;
}

static char *put_decimal(char *at, uint64_t value, unsigned int width, char pad)
{
	char digits[24];
	unsigned int n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	for (; width > n; width--)
		*at++ = pad;
	while (n)
		*at++ = digits[--n];
	return at;
}

static char *put_signed(char *at, int64_t value)
{
	if (value >= 0)
		return put_decimal(at, (uint64_t)value, 0, ' ');
	*at++ = '-';
	return put_decimal(at, -(uint64_t)value, 0, ' ');
}

static char *put_hex(char *at, uint64_t value)
{
	unsigned int shift = value ? (63 - (unsigned int)__builtin_clzll(value)) / 4 * 4 : 0;

	*at++ = '0';
	*at++ = 'x';
	for (;; shift -= 4) {
		*at++ = "0123456789abcdef"[value >> shift & 0xf];
		if (!shift)
			return at;
	}
}

/* Seconds with nine digits behind the point. */
static char *put_time(char *at, int64_t ns, unsigned int width)
{
	const uint64_t ns_per_s = 1000000000;
	uint64_t absolute = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	if (ns < 0)
		*at++ = '-';
	at = put_decimal(at, absolute / ns_per_s, width, ' ');
	*at++ = '.';
	return put_decimal(at, absolute % ns_per_s, NS_DIGITS, '0');
}

/* Names of caches come from guests: the sidecar's reader has replaced control characters. */
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

/* A value that needs no look-up. */
static char *put_plain(char *at, enum event_text_sort sort, uint64_t value)
{
	if (sort == EVENT_TEXT_HEX)
		return put_hex(at, value);
	if (sort == EVENT_TEXT_SIGNED)
		return put_signed(at, (int64_t)value);
	return put_decimal(at, value, 0, ' ');
}

static char *put_value(struct event_texts *texts, char *at, const struct event_field *field,
		       const void *bytes)
{
	enum event_text_sort sort = event_text_sorts[field->type];
	char text[EVENT_STRING_MAX + 1];

	if (sort == EVENT_TEXT_STRING) {
		event_field_text(field, bytes, text);
		return put_text(at, text);
	}
	if (sort < EVENT_TEXT_SORTS)
		return put_text(at, event_text_of(texts, sort, event_field_value(field, bytes)));
	return put_plain(at, sort, event_field_value(field, bytes));
}

/* An instance without a name of its own has the tracer's. */
static bool is_named(const struct event *event)
{
	return event->instance && strcmp(event->instance->name, event->class->system);
}

static char *put_line(struct event_printer *p, char *at, const struct event *event)
{
	const struct event_class *class = event->class;

	*at++ = '[';
	at = put_decimal(at, event->vcpu, 3, '0');
	at = put_text(at, "] ");
	at = put_time(at, event->ns, TIME_WIDTH);
	*at++ = ' ';
	if (is_named(event)) {
		at = put_text(at, event->instance->name);
		*at++ = ' ';
	}
	at = put_text(at, class->system);
	*at++ = ':';
	at = put_text(at, class->name);
	*at++ = ':';
	for (size_t i = 0; i < class->nr_fields; i++) {
		const struct event_field *field = &class->fields[i];

		*at++ = ' ';
		at = put_text(at, field->name);
		*at++ = '=';
		at = put_value(p->texts, at, field, event->bytes);
	}
	*at++ = '\n';
	return at;
}

static char *put_json_address(char *at, uint64_t value)
{
	*at++ = '"';
	at = put_hex(at, value);
	*at++ = '"';
	return at;
}

/* Addresses are strings, as JSON's numbers have 53 bits; a code address has its symbol, too. */
static char *put_json_value(struct event_texts *texts, char *at, const struct event_field *field,
			    const void *bytes)
{
	enum event_text_sort sort = event_text_sorts[field->type];
	char text[EVENT_STRING_MAX + 1];
	uint64_t value;

	if (sort == EVENT_TEXT_STRING) {
		event_field_text(field, bytes, text);
		return put_quoted(at, text);
	}
	value = event_field_value(field, bytes);
	if (sort == EVENT_TEXT_HEX)
		return put_json_address(at, value);
	if (sort >= EVENT_TEXT_SORTS)
		return put_plain(at, sort, value);
	if (event_field_is_code(field)) {
		at = put_json_address(at, value);
		at = put_text(at, ",\"");
		at = put_text(at, field->name);
		at = put_text(at, "_symbol\":");
	}
	return put_quoted(at, event_text_of(texts, sort, value));
}

static char *put_json(struct event_printer *p, char *at, const struct event *event)
{
	const struct event_class *class = event->class;

	at = put_text(at, "{\"ns\":");
	at = put_signed(at, event->ns);
	at = put_text(at, ",\"vcpu\":");
	at = put_decimal(at, event->vcpu, 0, ' ');
	if (is_named(event)) {
		at = put_text(at, ",\"instance\":");
		at = put_quoted(at, event->instance->name);
	}
	at = put_text(at, ",\"event\":\"");
	at = put_text(at, class->system);
	*at++ = ':';
	at = put_text(at, class->name);
	*at++ = '"';
	for (size_t i = 0; i < class->nr_fields; i++) {
		const struct event_field *field = &class->fields[i];

		at = put_text(at, ",\"");
		at = put_text(at, field->name);
		at = put_text(at, "\":");
		at = put_json_value(p->texts, at, field, event->bytes);
	}
	return put_text(at, "}\n");
}

int event_printer_put(struct event_printer *p, const struct event *event)
{
	char *at, *end;

	if (p->used > BUFFER_BYTES - LINE_BYTES) {
		int ret = event_printer_flush(p);

		if (ret)
			return ret;
	}
	at = p->buffer + p->used;
	end = p->json ? put_json(p, at, event) : put_line(p, at, event);
	p->used = (size_t)(end - p->buffer);
	return 0;
}
