/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"

int trace_instance_unknown(const char *name, const struct trace_instance *instances, size_t n,
			   struct error *err)
{
	const char *names[TRACE_INSTANCES_MAX + 1] = {0};

	for (size_t i = 0; i < n && i < TRACE_INSTANCES_MAX; i++)
		names[i] = instances[i].name;
	if (!n)
		return error_set(err, ENOENT, "--instance: the trace has no instances");
	return error_set(err, ENOENT, "--instance takes %s, not '%s'", text_words(names).s, name);
}

const struct event_field *event_field_find(const struct event_class *class, const char *name)
{
	for (size_t i = 0; i < class->nr_fields; i++)
		if (!strcmp(class->fields[i].name, name))
			return &class->fields[i];
	return NULL;
}

bool trace_instance_has_field(const struct trace_instance *instance, const char *name)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (event_field_find(&instance->classes[i], name))
			return true;
	return false;
}

static const char own_prefix[] = "common_";

const char *event_plain_name(const char *name)
{
	const size_t length = sizeof(own_prefix) - 1;

	return !strncmp(name, own_prefix, length) ? name + length : name;
}

const char *event_own_name(const char *name, bool is_taken, char *out, size_t size)
{
	snprintf(out, size, "%s%s", is_taken ? own_prefix : "", name);
	return out;
}

bool event_field_is_own(const struct event_field *field, const char *name)
{
	return !field->is_argument &&
	       (!strcmp(field->name, name) || !strcmp(event_plain_name(field->name), name));
}

const struct event_field *event_field_own(const struct event_class *class, const char *name)
{
	for (size_t i = 0; i < class->nr_fields; i++)
		if (event_field_is_own(&class->fields[i], name))
			return &class->fields[i];
	return NULL;
}

const char *event_column_suffix(const char *name)
{
	static const char *const columns[] = {"ns", "vcpu", "instance", "event"};

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		if (!strcmp(columns[i], name))
			return "_";
	return "";
}

const struct event_field *event_field_chain(const struct event_class *class)
{
	for (size_t i = 0; i < class->nr_fields; i++)
		if (class->fields[i].type == EVENT_STACK)
			return &class->fields[i];
	return NULL;
}

static uint64_t load(const void *at, uint8_t size)
{
	uint8_t one;
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case sizeof(one):
		memcpy(&one, at, sizeof(one));
		return one;
	case sizeof(two):
		memcpy(&two, at, sizeof(two));
		return two;
	case sizeof(four):
		memcpy(&four, at, sizeof(four));
		return four;
	default:
		memcpy(&eight, at, sizeof(eight));
		return eight;
	}
}

uint64_t event_field_value(const struct event_field *field, const void *bytes)
{
	uint64_t value = load((const uint8_t *)bytes + field->at, field->size);
	unsigned int unused = 64 - 8 * field->size;

	if (field->type != EVENT_INT)
		return value;
	return (uint64_t)((int64_t)(value << unused) >> unused);
}

void event_field_text(const struct event_field *field, const void *bytes, char *out)
{
	const unsigned int size =
		field->type == EVENT_LONG_STRING ? EVENT_LONG_STRING_MAX - 1 : field->size;
	char raw[EVENT_LONG_STRING_MAX];

	memcpy(raw, (const uint8_t *)bytes + field->at, size);
	raw[size] = '\0';
	clean_text(out, size + 1, raw);
}

bool event_field_is_cut(const struct event_field *field, const void *bytes)
{
	return field->type == EVENT_LONG_STRING &&
	       !memchr((const uint8_t *)bytes + field->at, '\0', EVENT_LONG_STRING_MAX);
}

void event_field_shown(const struct event_field *field, const void *bytes,
		       char out[EVENT_TEXT_ROOM])
{
	event_field_text(field, bytes, out);
	if (event_field_is_cut(field, bytes))
		strcpy(out + EVENT_LONG_STRING_MAX - 1, "...");
}

unsigned int event_field_frames(const struct event_field *field, const void *bytes,
				uint64_t frames[EVENT_STACK_FRAMES], bool *cut)
{
	uint64_t words[EVENT_STACK_WORDS];
	unsigned int n = 0;

	memcpy(words, (const uint8_t *)bytes + field->at, sizeof(words));
	while (n < EVENT_STACK_FRAMES && words[n] && words[n] != EVENT_STACK_CUT)
		n++;
	memcpy(frames, words, n * sizeof(words[0]));
	*cut = words[n];
	return n;
}
