/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/allocators/told-calls.h"

#include <stddef.h>
#include <string.h>

uint64_t told_function(const struct event *event)
{
	const struct event_field *field = event_field_own(event->class, "__probe_ip");

	return field ? event_field_value(field, event->bytes) : 0;
}

/* As the kernel names the parameter. */
static const struct event_field *argument(const struct event *event, const char *name)
{
	const struct event_field *field = event_field_find(event->class, name);

	return field && field->is_argument ? field : NULL;
}

bool told_call(const char *function, const struct event *event, struct told_call *out)
{
	static const struct {
		const char *function, *argument; /* NULL: it needs none */
		enum told_call_kind kind;
	} rows[] = {{"kvfree_call_rcu", "ptr", TOLD_FREE_LATER},
		    {"kmem_cache_prefill_sheaf", "size", TOLD_PREFILL},
		    {"kmem_cache_return_sheaf", NULL, TOLD_END_PREFILL}};
	const struct event_field *pid = event_field_own(event->class, "pid");

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct event_field *field =
			rows[i].argument ? argument(event, rows[i].argument) : NULL;

		if (strcmp(function, rows[i].function) != 0)
			continue;
		out->kind = rows[i].kind;
		out->value = field ? event_field_value(field, event->bytes) : 0;
		out->task = pid ? event_field_value(pid, event->bytes) : 0;
		return field || !rows[i].argument;
	}
	return false;
}
