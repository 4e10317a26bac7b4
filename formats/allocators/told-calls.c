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
		    {"kmem_cache_return_sheaf", NULL, TOLD_END_PREFILL},
		    {"drain_array", "name", TOLD_LOOK}};
	const struct event_field *pid = event_field_own(event->class, "pid");
	const size_t length = strcspn(function, "."); /* "drain_array.constprop.0" */

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct event_field *field =
			rows[i].argument ? argument(event, rows[i].argument) : NULL;
		const bool is_name = rows[i].kind == TOLD_LOOK;

		if (strncmp(function, rows[i].function, length) != 0 || rows[i].function[length])
			continue;
		if (rows[i].argument && (!field || event_field_is_string(field) != is_name))
			return false;
		*out = (struct told_call){.kind = rows[i].kind};
		if (is_name)
			event_field_text(field, event->bytes, out->cache);
		else if (field)
			out->value = event_field_value(field, event->bytes);
		out->task = pid ? event_field_value(pid, event->bytes) : 0;
		return true;
	}
	return false;
}
