/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "formats/event/filter.h"

struct sample {
	uint64_t a, b;
	int32_t c;
	char d[12];
};

static const struct event_field fields[] = {
	{.name = "a", .type = EVENT_CODE, .size = 8, .at = 0},
	{.name = "b", .type = EVENT_FLAGS, .size = 8, .at = 8},
	{.name = "c", .type = EVENT_INT, .size = 4, .at = 16},
	{.name = "d", .type = EVENT_STRING, .size = 12, .at = 20}};
static const struct event_class class = {
	.system = "s", .name = "e", .fields = fields, .nr_fields = 4};

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
	const struct sample sample = {1, 2, -3, "kworker"};
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
