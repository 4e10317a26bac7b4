/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_FUNCTION_FIELDS_H
#define SONDE_FORMATS_EVENT_FUNCTION_FIELDS_H

#include "formats/event/function.h"

/*
 * The fields of some of function_class(), for those whose code the compiler is to make from them.
 * All others use that.
 */
#define FIELD(member, type_, ...)                                        \
	{                                                                \
		.name = #member, .type = type_,                          \
		.size = sizeof(((struct function_event *)0)->member),    \
		.at = offsetof(struct function_event, member), .bits = { \
			__VA_ARGS__                                      \
		}                                                        \
	}

/* A kernel has fewer than 2^16 traced functions, and no more than 2^22 threads. What says whose an
 * event is comes first: so it can be the event's context for other readers (formats/ctf). */
#define IP FIELD(ip, EVENT_FUNCTION, 16, 64)
#define PARENT FIELD(parent_ip, EVENT_CODE, 16, 64)
#define PID FIELD(pid, EVENT_UINT, 22, 32)
#define COMM FIELD(comm, EVENT_STRING, 10, 128)

static const struct event_field function_ip[] = {IP};
static const struct event_field function_ip_parent[] = {IP, PARENT};
static const struct event_field function_ip_pid[] = {PID, IP};
static const struct event_field function_ip_parent_pid[] = {PID, IP, PARENT};
static const struct event_field function_ip_comm[] = {COMM, IP};
static const struct event_field function_ip_parent_comm[] = {COMM, IP, PARENT};
static const struct event_field function_ip_pid_comm[] = {PID, COMM, IP};
static const struct event_field function_ip_parent_pid_comm[] = {PID, COMM, IP, PARENT};

#undef FIELD
#undef IP
#undef PARENT
#undef PID
#undef COMM

#endif
