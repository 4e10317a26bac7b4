/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_GRAPH_FIELDS_H
#define SONDE_FORMATS_EVENT_GRAPH_FIELDS_H

#include "formats/event/graph.h"

/* The fields of some of graph_classes() and syscall_classes(), for those whose code the compiler is
 * to make from them. All others use that. */
#define FIELD(name_, type_, member, ...)                                                         \
	{                                                                                        \
		.name = name_, .type = type_, .size = sizeof(((struct graph_event *)0)->member), \
		.at = offsetof(struct graph_event, member), .bits = {__VA_ARGS__}, .implied = 0  \
	}

/* Frames have 48 or 57 bits, with 4- and 5-level paging. */
#define IP FIELD("ip", EVENT_FUNCTION, call.ip, 16, 16, 64)
#define PARENT FIELD("parent_ip", EVENT_CODE, call.parent_ip, 16, 16, 64)
#define PID FIELD("pid", EVENT_UINT, call.pid, 22, 22, 32)
#define COMM FIELD("comm", EVENT_STRING, call.comm, 10, 10, 128)
#define FRAME FIELD("frame", EVENT_POINTER, frame, 48, 57, 64)

/* 33 bits hold an int of either sign, whether its upper half is extended or not. */
#define EXIT_FRAME FIELD("frame", EVENT_POINTER, frame, 48, 48, 57, 64)
#define RESULT FIELD("result", EVENT_POINTER, result, 33, 48, 57, 64)

/* Of the task nothing. */
static const struct event_field graph_call_only[] = {IP, PARENT, FRAME};

static const struct event_field graph_entry[] = {PID, IP, PARENT, FRAME};
static const struct event_field graph_entry_comm[] = {PID, COMM, IP, PARENT, FRAME};
static const struct event_field graph_exit_frame[] = {FRAME};
static const struct event_field graph_exit_result[] = {EXIT_FRAME, RESULT};

#undef FIELD
#undef IP
#undef PARENT
#undef PID
#undef COMM
#undef FRAME
#undef EXIT_FRAME
#undef RESULT

/* --- system calls ---------------------------------------------------------------------------- */

#define FIELD(name_, type_, member, ...)                                                           \
	{                                                                                          \
		.name = name_, .type = type_, .size = sizeof(((struct syscall_event *)0)->member), \
		.at = offsetof(struct syscall_event, member), .bits = {__VA_ARGS__}, .implied = 0  \
	}

/* Small forms have arguments of 32 bits, or addresses of 48. Frames have 48 or 57 bits, with 4- and
 * 5-level paging. */
#define ARGUMENT(n) FIELD("arg" #n, EVENT_HEX, args[n], 32, 48, 48, 64)
#define ARGUMENTS ARGUMENT(0), ARGUMENT(1), ARGUMENT(2), ARGUMENT(3), ARGUMENT(4), ARGUMENT(5)
#define IP FIELD("ip", EVENT_FUNCTION, call.call.ip, 16, 16, 16, 64)
#define FRAME FIELD("frame", EVENT_POINTER, call.frame, 48, 48, 57, 64)
#define RET FIELD("ret", EVENT_INT, call.result, 32, 48, 48, 64)
#define PID FIELD("pid", EVENT_UINT, call.call.pid, 22, 22, 22, 32)
#define COMM FIELD("comm", EVENT_STRING, call.call.comm, 10, 10, 10, 128)

/* Of the task nothing. */
static const struct event_field sys_enter_only[] = {IP, ARGUMENTS, FRAME};
static const struct event_field sys_exit_only[] = {RET, FRAME};

static const struct event_field sys_enter[] = {PID, IP, ARGUMENTS, FRAME};
static const struct event_field sys_enter_comm[] = {PID, COMM, IP, ARGUMENTS, FRAME};
static const struct event_field sys_exit[] = {PID, RET, FRAME};
static const struct event_field sys_exit_comm[] = {PID, COMM, RET, FRAME};

#undef FIELD
#undef ARGUMENT
#undef ARGUMENTS
#undef IP
#undef FRAME
#undef RET
#undef PID
#undef COMM

#endif
