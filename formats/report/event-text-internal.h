/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_EVENT_TEXT_INTERNAL_H
#define SONDE_FORMATS_REPORT_EVENT_TEXT_INTERNAL_H

#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/report/event-text.h"

/* What event-names.c looks up and event-text.c prints. */
enum event_text_sort {
	EVENT_TEXT_CODE,
	EVENT_TEXT_FUNCTION,
	EVENT_TEXT_FLAGS,
	EVENT_TEXT_CACHE,
	EVENT_TEXT_SORTS, /* these are looked up; the others are printed from the value: */
	EVENT_TEXT_DECIMAL = EVENT_TEXT_SORTS,
	EVENT_TEXT_SIGNED,
	EVENT_TEXT_HEX,
	EVENT_TEXT_STRING,
};

/* How values of each type of field are shown. */
extern const enum event_text_sort event_text_sorts[EVENT_NR_TYPES];

struct event_texts {
	const struct sidecar *sidecar;
	struct event_names names;
	struct u64_map known[EVENT_TEXT_SORTS]; /* texts, owned */
	struct text last;                       /* one that is not kept */
};

/* Valid until the next call. */
const char *event_text_of(struct event_texts *texts, enum event_text_sort sort, uint64_t value);

/* The functions of struct event_names. */
void event_texts_filter_text(void *arg, const struct event_field *field, uint64_t value, char *out,
			     size_t size);
int event_texts_flag(void *arg, const struct event_field *field, const char *name, uint64_t *value);

#endif
