/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include "patcher/probe/gate.h"

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

static const char *flag_name(void *arg, const struct event_field *field, size_t number)
{
	static const char *const flags[] = {"F", "GG"};

	(void)arg;
	(void)field;
	return number < 2 ? flags[number] : NULL;
}

static int flag_of(void *arg, const struct event_field *field, const char *name, uint64_t *value)
{
	for (size_t i = 0; flag_name(arg, field, i); i++) {
		*value = 2 << i;
		if (!strcmp(name, flag_name(arg, field, i)))
			return 0;
	}
	return -1;
}

/* Gate and host together say what the filter says; b is known at the point, and c is not. */
static bool split_agrees(const struct event_predicate *predicate, const struct event *event,
			 bool expected)
{
	static const struct gate_field known[] = {{"b", GATE_ARG0, 8, false},
						  {NULL, GATE_VCPU, 4, false}};
	const struct sample *sample = event->bytes;
	const struct gate_values values = {{[GATE_ARG0] = sample->b, [GATE_VCPU] = event->vcpu}};
	char text[EVENT_FILTER_MAX];
	struct gate_split split;

	gate_split(predicate, known, sizeof(known) / sizeof(known[0]), &split);
	if (gate_check(&split.gate, NULL))
		return false;
	gate_split_print(&split, predicate, true, text, sizeof(text));
	return (gate_eval(&split.gate, &values) &&
		event_predicate_matches_rest(predicate, &split.known, event)) == expected;
}

static void match(const struct event_filter *filter)
{
	static const struct event_names names = {
		.text = text_of, .flag = flag_of, .flag_name = flag_name};
	const struct sample sample = {1, 2, -3, "kworker"};
	const struct event event = {.class = &class, .bytes = &sample};
	struct event_predicate *predicate;

	if (event_filter_bind(filter, &class, &names, &predicate, NULL))
		return;
	if (!split_agrees(predicate, &event, event_predicate_matches(predicate, &event)))
		abort();
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
