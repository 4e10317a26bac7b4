/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/event/filter.h"

struct sample {
	uint64_t a, b;
	int32_t c;
};

static const struct event_field fields[] = {
	{"a", EVENT_CODE, 8, 0}, {"b", EVENT_FLAGS, 8, 8}, {"c", EVENT_INT, 4, 16}};
static const struct event_class class = {"s", "e", fields, 3};

static void text_of(void *arg, const struct event_field *field, uint64_t value, char *out,
		    size_t size)
{
	(void)arg;
	(void)field;
	(void)value;
	if (size > 4)
		memcpy(out, "f+1", 4);
}

static void match(const struct event_filter *filter)
{
	static const struct event_names names = {NULL, text_of, NULL};
	const struct sample sample = {1, 2, -3};
	const struct event event = {.class = &class, .bytes = &sample};
	struct event_predicate *predicate;

	if (event_filter_bind(filter, &class, &names, &predicate, NULL))
		return;
	event_predicate_matches(predicate, &event);
	event_predicate_destroy(predicate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct event_filter *filter;

	if (text && !event_filter_parse(text, &filter, NULL)) {
		match(filter);
		event_filter_destroy(filter);
	}
	free(text);
	return 0;
}
