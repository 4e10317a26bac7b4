/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all lines of a class have in common is made once. */
#include <stdio.h>
#include <stdlib.h>
#include "formats/report/digits.h"
#include "formats/report/event-text-internal.h"

#define PAIRS(tens) \
	tens "0" tens "1" tens "2" tens "3" tens "4" tens "5" tens "6" tens "7" tens "8" tens "9"

const char digit_pairs[201] = PAIRS("0") PAIRS("1") PAIRS("2") PAIRS("3") PAIRS("4") PAIRS("5")
	PAIRS("6") PAIRS("7") PAIRS("8") PAIRS("9");

struct piece_text *piece_text_make(const char *text)
{
	size_t length = strlen(text);
	struct piece_text *made = calloc(1, sizeof(*made) + length + 1 + PIECE_BYTES);

	if (!made)
		return NULL;
	made->length = length;
	memcpy(made->s, text, length);
	return made;
}

/* An instance without a name of its own has the tracer's, or that of its only event. */
static bool is_named(const struct event_layout *l)
{
	return l->instance && strcmp(l->instance->name, l->class->system) != 0 &&
	       (l->instance->nr_classes > 1 || strcmp(l->instance->name, l->class->name) != 0);
}

enum { HEAD_BYTES = 32 /* what is printed around the names, with the NUL */ };

static struct piece_text *make_head(const struct event_layout *l, bool json)
{
	const char *instance = is_named(l) ? l->instance->name : "";
	const char *before = "", *behind = *instance ? " " : "";
	char text[2 * EVENT_CLASS_NAME_MAX + TRACE_INSTANCE_NAME_MAX + HEAD_BYTES];

	if (!json) {
		snprintf(text, sizeof(text), " %s%s%s:%s:", instance, behind, l->class->system,
			 l->class->name);
		return piece_text_make(text);
	}
	if (*instance) {
		before = ",\"instance\":\"";
		behind = "\"";
	}
	snprintf(text, sizeof(text), "%s%s%s,\"event\":\"%s:%s\"", before, instance, behind,
		 l->class->system, l->class->name);
	return piece_text_make(text);
}

static struct piece_text *make_label(const char *name, const char *suffix, bool json)
{
	char text[EVENT_NAME_BYTES];

	snprintf(text, sizeof(text), json ? ",\"%.47s%s%s\":" : " %.47s%s%s=", name,
		 json ? event_column_suffix(name) : "", suffix);
	return piece_text_make(text);
}

/* The 8 bytes are the event's, which has a multiple of that. */
static void set_load(struct event_text_field *f, unsigned int class_size)
{
	unsigned int at = f->field->at, size = f->field->size;
	unsigned int load = at + 8 <= class_size ? at : class_size - 8;
	unsigned int before = 8 * (at - load), unused = 64 - 8 * size;

	f->at = (uint16_t)load;
	f->right = (uint8_t)unused;
	f->left = (uint8_t)(__BYTE_ORDER == __BIG_ENDIAN ? before : unused - before);
}

static bool make_field(struct event_text_field *f, const struct event_class *class, size_t i,
		       bool json)
{
	const struct event_field *field = &class->fields[i];

	f->field = field;
	f->sort = event_text_sorts[field->type];
	if (f->sort != EVENT_TEXT_STRING && f->sort != EVENT_TEXT_STACK)
		set_load(f, class->size);
	f->label = make_label(field->name, "", json);
	f->symbol_label = make_label(field->name, "_symbol", json);
	f->source_label = make_label(field->name, "_source", json);
	f->cut_label = make_label(field->name, "_cut", json);
	return f->label && f->symbol_label && f->source_label && f->cut_label;
}

/* Whether a field says which of the others could not be read. */
static bool says_faults(const struct event_field *field)
{
	return field->type == EVENT_HEX && field->size >= sizeof(uint32_t) &&
	       event_field_is_own(field, "faults");
}

/* Lines of text show what it says in the place of the values. */
static bool make_fields(struct event_layout *l, bool json)
{
	const struct event_class *class = l->class;
	bool made = true;
	uint64_t fault = 0;

	for (size_t i = 0; made && i < class->nr_fields; i++) {
		const bool is_behind = class->fields[i].type == EVENT_STACK && !json;
		const bool says = says_faults(&class->fields[i]);

		if (says)
			l->faults = &class->fields[i];
		if (is_behind)
			l->stack = &class->fields[i];
		if (!is_behind && (!says || json)) {
			made = make_field(&l->fields[l->nr_fields], class, i, json);
			l->fields[l->nr_fields++].fault = fault;
		}
		fault = says ? 1 : fault << 1;
	}
	return made;
}

struct event_layout *event_layout_create(const struct event *event, bool json)
{
	struct event_layout *l = calloc(1, sizeof(*l));
	bool made;

	if (!l)
		return NULL;
	l->class = event->class;
	l->instance = event->instance;
	l->head = make_head(l, json);
	made = l->head;
	if (made)
		made = make_fields(l, json);
	if (made)
		return l;
	event_layout_destroy(l);
	return NULL;
}

void event_layout_destroy(struct event_layout *l)
{
	for (size_t i = 0; l && i < l->nr_fields; i++) {
		free(l->fields[i].label);
		free(l->fields[i].symbol_label);
		free(l->fields[i].source_label);
		free(l->fields[i].cut_label);
	}
	if (l)
		free(l->head);
	free(l);
}
