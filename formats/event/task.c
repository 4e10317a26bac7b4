/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/task.h"

#include <string.h>

/* In the order of enum event_task_fields: in all forms but the last, in which all fields are as
 * they are. A kernel has no more than 2^22 threads; ids of cgroups are given in ascending order. */
#define TASK_FIELD(name_, type_, few)                                                           \
	{                                                                                       \
		.name = #name_, .type = type_, .size = sizeof(((struct event_task *)0)->name_), \
		.bits = {                                                                       \
			few                                                                     \
		}                                                                               \
	}

static const struct event_field task_fields[] = {
	TASK_FIELD(pid, EVENT_UINT, 22),
	TASK_FIELD(tgid, EVENT_UINT, 22),
	TASK_FIELD(comm, EVENT_STRING, 10),
	TASK_FIELD(cgroup, EVENT_UINT, 20),
};
enum { NR_TASK_FIELDS = sizeof(task_fields) / sizeof(task_fields[0]) };

static const struct event_field stack_field = {
	.name = "stack", .type = EVENT_STACK, .size = sizeof(uint64_t), .bits = {16}};

bool event_task_has_field(const char *name)
{
	for (size_t i = 0; i < NR_TASK_FIELDS; i++)
		if (!strcmp(task_fields[i].name, name))
			return true;
	return false;
}

static struct event_field field_of(const struct event_field *like, uint16_t at,
				   unsigned int nr_forms)
{
	struct event_field field = *like;

	field.at = at;
	for (unsigned int form = 0; form < nr_forms; form++)
		field.bits[form] = form + 1 < nr_forms ? like->bits[0] : 8 * like->size;
	return field;
}

void event_class_add_task(const struct event_class *plain, unsigned int wanted,
			  const struct event_task_places *places, struct event_field *fields,
			  struct event_class *out)
{
	const uint16_t at[NR_TASK_FIELDS] = {places->pid, places->tgid, places->comm,
					     places->cgroup};
	const unsigned int nr_forms = plain->nr_forms;
	size_t n = 0;

	for (unsigned int i = 0; i < NR_TASK_FIELDS; i++)
		if (wanted >> i & 1)
			fields[n++] = field_of(&task_fields[i], at[i], nr_forms);
	memcpy(fields + n, plain->fields, plain->nr_fields * sizeof(*fields));
	n += plain->nr_fields;
	if (wanted & EVENT_TASK_STACK)
		fields[n++] = field_of(&stack_field, places->stack, nr_forms);
	*out = *plain;
	out->fields = fields;
	out->nr_fields = n;
}
