/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/function-fields.h"

#define CLASS(fields_)                                                              \
	{                                                                           \
		.system = "function", .name = "function", .fields = fields_,        \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 2, \
		.size = sizeof(struct function_event)                               \
	}

const struct event_class *function_class(unsigned int fields)
{
	static const struct event_class classes[FUNCTION_ALL + 1] = {
		[0] = CLASS(function_ip),
		[FUNCTION_PARENT] = CLASS(function_ip_parent),
		[FUNCTION_PID] = CLASS(function_ip_pid),
		[FUNCTION_PARENT | FUNCTION_PID] = CLASS(function_ip_parent_pid),
		[FUNCTION_COMM] = CLASS(function_ip_comm),
		[FUNCTION_PARENT | FUNCTION_COMM] = CLASS(function_ip_parent_comm),
		[FUNCTION_PID | FUNCTION_COMM] = CLASS(function_ip_pid_comm),
		[FUNCTION_ALL] = CLASS(function_all),
	};

	return &classes[fields & FUNCTION_ALL];
}
