/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/graph.h"

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

static const struct event_field entry[] = {IP, PARENT, FRAME, PID};
static const struct event_field entry_comm[] = {IP, PARENT, FRAME, PID, COMM};
static const struct event_field exit_frame[] = {FRAME};
static const struct event_field exit_result[] = {EXIT_FRAME, RESULT};

#define CLASS(name_, fields_, forms)                                                    \
	{                                                                               \
		.system = "graph", .name = name_, .fields = fields_,                    \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = forms, \
		.size = sizeof(struct graph_event)                                      \
	}

#define CLASSES(entry_fields, exit_fields, exit_forms)                 \
	{                                                              \
		[GRAPH_ENTRY] = CLASS("entry", entry_fields, 3),       \
		[GRAPH_EXIT] = CLASS("exit", exit_fields, exit_forms), \
		[GRAPH_CALL] = CLASS("call", entry_fields, 3),         \
		[GRAPH_TAIL] = CLASS("tail", entry_fields, 3)          \
	}

static const struct event_class classes[GRAPH_ALL + 1][GRAPH_NR_CLASSES] = {
	[0] = CLASSES(entry, exit_frame, 3),
	[GRAPH_COMM] = CLASSES(entry_comm, exit_frame, 3),
	[GRAPH_RESULT] = CLASSES(entry, exit_result, 4),
	[GRAPH_ALL] = CLASSES(entry_comm, exit_result, 4),
};

const struct event_class *graph_classes(unsigned int fields)
{
	return classes[fields & GRAPH_ALL];
}

bool graph_class_of(const struct event_class *class, enum graph_class *out)
{
	const struct event_class *own = class->known ? class->known : class;

	for (unsigned int fields = 0; fields <= GRAPH_ALL; fields++)
		for (unsigned int i = 0; i < GRAPH_NR_CLASSES; i++)
			if (own == &classes[fields][i]) {
				*out = (enum graph_class)i;
				return true;
			}
	return false;
}

/* --- system calls ---------------------------------------------------------------------------- */

#undef FIELD
#undef IP
#undef PID
#undef COMM
#undef FRAME
#undef CLASS
#undef CLASSES

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
#define PID FIELD("pid", EVENT_UINT, call.call.pid, 22, 22, 22, 32)
#define COMM FIELD("comm", EVENT_STRING, call.call.comm, 10, 10, 10, 128)
#define FRAME FIELD("frame", EVENT_POINTER, call.frame, 48, 48, 57, 64)
#define RET FIELD("ret", EVENT_INT, call.result, 32, 48, 48, 64)

static const struct event_field sys_enter[] = {IP, ARGUMENTS, PID, FRAME};
static const struct event_field sys_enter_comm[] = {IP, ARGUMENTS, PID, COMM, FRAME};
static const struct event_field sys_exit[] = {RET, PID, FRAME};
static const struct event_field sys_exit_comm[] = {RET, PID, COMM, FRAME};

#define CLASS(name_, fields_)                                                       \
	{                                                                           \
		.system = "syscalls", .name = name_, .fields = fields_,             \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 4, \
		.size = sizeof(struct syscall_event)                                \
	}

#define CLASSES(enter_fields, exit_fields)                                   \
	{                                                                    \
		[SYSCALL_ENTER] = CLASS("sys_enter", enter_fields),          \
		[SYSCALL_EXIT] = CLASS("sys_exit", exit_fields),             \
		[SYSCALL_ENTER_ONLY] = CLASS("sys_enter_only", enter_fields) \
	}

static const struct event_class system_calls[SYSCALL_ALL + 1][SYSCALL_NR_CLASSES] = {
	[0] = CLASSES(sys_enter, sys_exit),
	[SYSCALL_COMM] = CLASSES(sys_enter_comm, sys_exit_comm),
};

const struct event_class *syscall_classes(unsigned int fields)
{
	return system_calls[fields & SYSCALL_ALL];
}

bool syscall_class_of(const struct event_class *class, enum syscall_class *out)
{
	const struct event_class *own = class->known ? class->known : class;

	for (unsigned int fields = 0; fields <= SYSCALL_ALL; fields++)
		for (unsigned int i = 0; i < SYSCALL_NR_CLASSES; i++)
			if (own == &system_calls[fields][i]) {
				*out = (enum syscall_class)i;
				return true;
			}
	return false;
}

/* --- instances ------------------------------------------------------------------------------- */

bool graph_is_of(const struct trace_instance *instance)
{
	enum graph_class which;

	return instance->nr_classes && graph_class_of(&instance->classes[0], &which);
}

bool syscall_is_of(const struct trace_instance *instance)
{
	enum syscall_class which;

	return instance->nr_classes && syscall_class_of(&instance->classes[0], &which);
}
