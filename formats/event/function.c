/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/function.h"

#define FIELD(member, type, ...)                                                   \
	{                                                                          \
#member, type, sizeof(((struct function_event *)0)->member),       \
			offsetof(struct function_event, member), {__VA_ARGS__ }, 0 \
	}

/* A kernel has fewer than 2^16 traced functions, and no more than 2^22 threads. */
#define IP FIELD(ip, EVENT_FUNCTION, 16, 64)
#define PARENT FIELD(parent_ip, EVENT_CODE, 16, 64)
#define PID FIELD(pid, EVENT_UINT, 22, 32)
#define COMM FIELD(comm, EVENT_STRING, 10, 128)

static const struct event_field ip[] = {IP};
static const struct event_field ip_parent[] = {IP, PARENT};
static const struct event_field ip_pid[] = {IP, PID};
static const struct event_field ip_parent_pid[] = {IP, PARENT, PID};
static const struct event_field ip_comm[] = {IP, COMM};
static const struct event_field ip_parent_comm[] = {IP, PARENT, COMM};
static const struct event_field ip_pid_comm[] = {IP, PID, COMM};
static const struct event_field all[] = {IP, PARENT, PID, COMM};

#define CLASS(fields_)                                                              \
	{                                                                           \
		.system = "function", .name = "function", .fields = fields_,        \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 2, \
		.size = sizeof(struct function_event)                               \
	}

const struct event_class *function_class(unsigned int fields)
{
	static const struct event_class classes[FUNCTION_ALL + 1] = {
		[0] = CLASS(ip),
		[FUNCTION_PARENT] = CLASS(ip_parent),
		[FUNCTION_PID] = CLASS(ip_pid),
		[FUNCTION_PARENT | FUNCTION_PID] = CLASS(ip_parent_pid),
		[FUNCTION_COMM] = CLASS(ip_comm),
		[FUNCTION_PARENT | FUNCTION_COMM] = CLASS(ip_parent_comm),
		[FUNCTION_PID | FUNCTION_COMM] = CLASS(ip_pid_comm),
		[FUNCTION_ALL] = CLASS(all),
	};

	return &classes[fields & FUNCTION_ALL];
}
