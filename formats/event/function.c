/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/function-fields.h"

#define CLASS(fields_, event_)                                                      \
	{                                                                           \
		.system = "function", .name = "function", .fields = fields_,        \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 2, \
		.size = sizeof(struct event_)                                       \
	}

const struct event_class *function_class(unsigned int fields)
{
	static const struct event_class classes[(FUNCTION_ALL | FUNCTION_STACK) + 1] = {
		[0] = CLASS(function_ip, function_event),
		[FUNCTION_PARENT] = CLASS(function_ip_parent, function_event),
		[FUNCTION_PID] = CLASS(function_ip_pid, function_event),
		[FUNCTION_PARENT | FUNCTION_PID] = CLASS(function_ip_parent_pid, function_event),
		[FUNCTION_COMM] = CLASS(function_ip_comm, function_event),
		[FUNCTION_PARENT | FUNCTION_COMM] = CLASS(function_ip_parent_comm, function_event),
		[FUNCTION_PID | FUNCTION_COMM] = CLASS(function_ip_pid_comm, function_event),
		[FUNCTION_ALL] = CLASS(function_all, function_event),
		[FUNCTION_STACK] = CLASS(function_ip_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_PARENT] =
			CLASS(function_ip_parent_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_PID] =
			CLASS(function_ip_pid_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_PARENT | FUNCTION_PID] =
			CLASS(function_ip_parent_pid_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_COMM] =
			CLASS(function_ip_comm_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_PARENT | FUNCTION_COMM] =
			CLASS(function_ip_parent_comm_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_PID | FUNCTION_COMM] =
			CLASS(function_ip_pid_comm_stack, function_stack_event),
		[FUNCTION_STACK | FUNCTION_ALL] = CLASS(function_all_stack, function_stack_event),
	};

	return &classes[fields & (FUNCTION_ALL | FUNCTION_STACK)];
}
