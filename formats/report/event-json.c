/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event as a JSON object. */
#include "formats/report/digits.h"
#include "formats/report/event-text-internal.h"

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

static char *put_address(char *at, uint64_t value)
{
	*at++ = '"';
	at = digits_put_hex(at, value);
	*at++ = '"';
	return at;
}

/* An array of the texts of code addresses. */
static char *put_texts(char *at, struct event_texts *texts, enum event_text_sort sort,
		       const uint64_t *frames, unsigned int n)
{
	*at++ = '[';
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			*at++ = ',';
		at = put_quoted(at, event_text_of(texts, sort, frames[i])->s);
	}
	*at++ = ']';
	return at;
}

/* Addresses, symbols and perhaps their places in arrays, and whether the chain goes on. */
static char *put_stack(char *at, const struct event_text_field *f, struct event_texts *texts,
		       const void *bytes)
{
	static const char marks[2][8] = {"false", "true"};
	uint64_t frames[EVENT_STACK_FRAMES];
	bool cut;
	unsigned int n = event_field_frames(f->field, bytes, frames, &cut);

	*at++ = '[';
	for (unsigned int i = 0; i < n; i++) {
		if (i)
			*at++ = ',';
		at = put_address(at, frames[i]);
	}
	*at++ = ']';
	at = piece_text_put(at, f->symbol_label);
	at = put_texts(at, texts, EVENT_TEXT_CODE, frames, n);
	if (texts->has_source) {
		at = piece_text_put(at, f->source_label);
		at = put_texts(at, texts, EVENT_TEXT_SOURCE, frames, n);
	}
	at = piece_text_put(at, f->cut_label);
	memcpy(at, marks[cut], sizeof(marks[cut]));
	return at + strlen(marks[cut]);
}

/* What is a part of a longer one says so. */
static char *put_string(char *at, const struct event_text_field *f, const void *bytes)
{
	static const char cut[] = "true";
	char text[EVENT_TEXT_ROOM];

	event_field_text(f->field, bytes, text);
	at = put_quoted(at, text);
	if (!event_field_is_cut(f->field, bytes))
		return at;
	at = piece_text_put(at, f->cut_label);
	memcpy(at, cut, sizeof(cut) - 1);
	return at + sizeof(cut) - 1;
}

/* Addresses are strings, as JSON's numbers have 53 bits; a code address has its symbol, too. */
static char *put_value(char *at, const struct event_text_field *f, struct event_texts *texts,
		       const void *bytes)
{
	uint64_t value;

	if (f->sort == EVENT_TEXT_STRING)
		return put_string(at, f, bytes);
	if (f->sort == EVENT_TEXT_STACK)
		return put_stack(at, f, texts, bytes);
	value = event_text_value(f, bytes);
	if (f->sort == EVENT_TEXT_HEX)
		return put_address(at, value);
	if (f->sort == EVENT_TEXT_SIGNED)
		return digits_put_signed(at, (int64_t)value);
	if (f->sort == EVENT_TEXT_DECIMAL)
		return digits_put_decimal(at, value);
	if (event_field_is_code(f->field)) {
		at = put_address(at, value);
		at = piece_text_put(at, f->symbol_label);
	}
	at = put_quoted(at, event_text_of(texts, f->sort, value)->s);
	if (texts->has_source && f->sort == EVENT_TEXT_CODE) {
		at = piece_text_put(at, f->source_label);
		at = put_quoted(at, event_text_of(texts, EVENT_TEXT_SOURCE, value)->s);
	}
	return at;
}

char *event_json_put(char *at, const struct event_layout *layout, struct event_texts *texts,
		     const struct event *event)
{
	static const char ns[] = "{\"ns\":", vcpu[] = ",\"vcpu\":", null[] = "null";
	const uint64_t faults = event_text_faults(layout, event->bytes);

	memcpy(at, ns, sizeof(ns) - 1);
	at = digits_put_signed(at + sizeof(ns) - 1, event->ns);
	memcpy(at, vcpu, sizeof(vcpu) - 1);
	at = digits_put_decimal(at + sizeof(vcpu) - 1, event->vcpu);
	at = piece_text_put(at, layout->head);
	for (size_t i = 0; i < layout->nr_fields; i++) {
		at = piece_text_put(at, layout->fields[i].label);
		if (layout->fields[i].fault & faults) {
			memcpy(at, null, sizeof(null) - 1);
			at += sizeof(null) - 1;
		} else {
			at = put_value(at, &layout->fields[i], texts, event->bytes);
		}
	}
	memcpy(at, "}\n", 2);
	return at + 2;
}
