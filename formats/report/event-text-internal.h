/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_EVENT_TEXT_INTERNAL_H
#define SONDE_FORMATS_REPORT_EVENT_TEXT_INTERNAL_H

#include <string.h>
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/report/event-text.h"

/* What event-names.c looks up, event-layout.c arranges, and event-text.c and event-json.c print. */
enum event_text_sort {
	EVENT_TEXT_CODE,
	EVENT_TEXT_SOURCE, /* of such: where in the source it is */
	EVENT_TEXT_FUNCTION,
	EVENT_TEXT_FLAGS,
	EVENT_TEXT_CACHE,
	EVENT_TEXT_SORTS, /* these are looked up; the others are printed from the value: */
	EVENT_TEXT_DECIMAL = EVENT_TEXT_SORTS,
	EVENT_TEXT_SIGNED,
	EVENT_TEXT_HEX,
	EVENT_TEXT_STRING,
	EVENT_TEXT_STACK,
};

/* How values of each type of field are shown. */
extern const enum event_text_sort event_text_sorts[EVENT_NR_TYPES];

/* A text that is copied often: in whole pieces, for which there are bytes behind it. */
enum { PIECE_BYTES = 32 };
struct piece_text {
	size_t length;
	char s[]; /* NUL-terminated */
};

/* To be freed. NULL without memory. */
struct piece_text *piece_text_make(const char *text);

/* Behind `at` there is room for a piece more than the text has. */
static inline char *piece_text_put(char *at, const struct piece_text *text)
{
	memcpy(at, text->s, PIECE_BYTES);
	for (size_t i = PIECE_BYTES; i < text->length; i += PIECE_BYTES)
		memcpy(at + i, text->s + i, PIECE_BYTES);
	return at + text->length;
}

/* --- texts of values ------------------------------------------------------------------------- */

enum { RECENT_TEXT_BITS = 10 };

struct event_texts {
	const struct sidecar *sidecar;
	bool has_source; /* places in the source are to be shown */
	struct event_names names;
	struct u64_map known[EVENT_TEXT_SORTS]; /* struct piece_text *, owned */
	struct piece_text *last;                /* one that is not kept */
	struct {
		uint64_t value;
		const struct piece_text *text;             /* NULL: none yet */
	} recent[EVENT_TEXT_SORTS][1 << RECENT_TEXT_BITS]; /* some of those, by hash */
};

static inline uint64_t event_text_hash(uint64_t value)
{
	return value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECENT_TEXT_BITS);
}

/* The text is valid until the next call. */
const struct piece_text *event_text_find(struct event_texts *texts, enum event_text_sort sort,
					 uint64_t value);

/* The same, mostly without a look-up. */
static inline const struct piece_text *event_text_of(struct event_texts *texts,
						     enum event_text_sort sort, uint64_t value)
{
	uint64_t hash = event_text_hash(value);

	if (texts->recent[sort][hash].text && texts->recent[sort][hash].value == value)
		return texts->recent[sort][hash].text;
	return event_text_find(texts, sort, value);
}

/* The functions of struct event_names. */
void event_texts_filter_text(void *arg, const struct event_field *field, uint64_t value, char *out,
			     size_t size);
int event_texts_flag(void *arg, const struct event_field *field, const char *name, uint64_t *value);
const char *event_texts_flag_name(void *arg, const struct event_field *field, size_t number);

/* --- lines ----------------------------------------------------------------------------------- */

/* A field of a class: what is printed in front of it, and how. */
struct event_text_field {
	enum event_text_sort sort;
	const struct event_field *field;
	uint16_t at;         /* of 8 bytes of the event: shift them left, then right */
	uint8_t left, right; /* bits */
	uint64_t fault;      /* the bit of the faults that says that it could not be read; or 0 */
	struct piece_text *label;
	struct piece_text *symbol_label, *source_label; /* of a code address in JSON */
	struct piece_text *cut_label;                   /* of a stack, or a string, in JSON */
};

/* event_field_value() of a field that is no string. */
static inline uint64_t event_text_value(const struct event_text_field *f, const void *bytes)
{
	uint64_t word;

	memcpy(&word, (const uint8_t *)bytes + f->at, sizeof(word));
	word <<= f->left;
	if (f->sort == EVENT_TEXT_SIGNED)
		return (uint64_t)((int64_t)word >> f->right);
	return word >> f->right;
}

/* What the lines of an instance's events of one class have in common. */
struct event_layout {
	const struct event_class *class;
	const struct trace_instance *instance;
	struct piece_text *head; /* what names the event */
	/* Of an event with values that may lie in memory which is not there (the probe tracer): bit
	 * i is the i-th field behind it. NULL: there is none. */
	const struct event_field *faults;
	const struct event_field *stack; /* of lines of text, which have it behind them; or NULL */
	size_t nr_fields;
	struct event_text_field fields[EVENT_MAX_FIELDS];
};

static inline uint64_t event_text_faults(const struct event_layout *layout, const void *bytes)
{
	return layout->faults ? event_field_value(layout->faults, bytes) : 0;
}

/* To be freed by event_layout_destroy(), which is NULL-safe. NULL without memory. */
struct event_layout *event_layout_create(const struct event *event, bool json);
void event_layout_destroy(struct event_layout *layout);

/*
 * Most bytes of a line: a JSON object, in which each character of a text may be escaped, and a code
 * address has its label three times, and two texts. An event has room for one stack.
 */
enum {
	EVENT_NAME_BYTES = 64, /* of a field, with what is printed around it */
	EVENT_LINE_MAX = 1024 +
			 EVENT_MAX_FIELDS * (4 * (int)sizeof(struct text) + 3 * EVENT_NAME_BYTES +
					     3 * PIECE_BYTES) +
			 EVENT_STACK_FRAMES * (4 * (int)sizeof(struct text) + 3 * PIECE_BYTES),
};

/* Behind `at` there is room for the longest line. Returns where it ends. */
char *event_json_put(char *at, const struct event_layout *layout, struct event_texts *texts,
		     const struct event *event);

#endif
