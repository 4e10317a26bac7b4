/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/graph.h"
#include "formats/event/graph-fields.h"

enum {
	GRAPH_SETS = (GRAPH_ALL | GRAPH_STACK) + 1,
	SYSCALL_SETS = (SYSCALL_ALL | SYSCALL_STACK) + 1
};

#define CLASS(name_, event_, fields_, forms)                                            \
	{                                                                               \
		.system = "graph", .name = name_, .fields = fields_,                    \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = forms, \
		.size = sizeof(struct event_)                                           \
	}

#define CLASSES(event_, entry_fields, exit_fields, exit_forms)                      \
	{                                                                           \
		[GRAPH_ENTRY] = CLASS("entry", event_, entry_fields, 3),            \
		[GRAPH_EXIT] = CLASS("exit", graph_event, exit_fields, exit_forms), \
		[GRAPH_CALL] = CLASS("call", event_, entry_fields, 3),              \
		[GRAPH_TAIL] = CLASS("tail", event_, entry_fields, 3)               \
	}

static const struct event_class classes[GRAPH_SETS][GRAPH_NR_CLASSES] = {
	[0] = CLASSES(graph_event, graph_entry, graph_exit_frame, 3),
	[GRAPH_COMM] = CLASSES(graph_event, graph_entry_comm, graph_exit_frame, 3),
	[GRAPH_RESULT] = CLASSES(graph_event, graph_entry, graph_exit_result, 4),
	[GRAPH_ALL] = CLASSES(graph_event, graph_entry_comm, graph_exit_result, 4),
	[GRAPH_STACK] = CLASSES(call_stack_event, graph_entry_stack, graph_exit_frame, 3),
	[GRAPH_STACK | GRAPH_COMM] =
		CLASSES(call_stack_event, graph_entry_comm_stack, graph_exit_frame, 3),
	[GRAPH_STACK | GRAPH_RESULT] =
		CLASSES(call_stack_event, graph_entry_stack, graph_exit_result, 4),
	[GRAPH_STACK | GRAPH_ALL] =
		CLASSES(call_stack_event, graph_entry_comm_stack, graph_exit_result, 4),
};

const struct event_class *graph_classes(unsigned int fields)
{
	return classes[fields & (GRAPH_SETS - 1)];
}

bool graph_class_of(const struct event_class *class, enum graph_class *out)
{
	const struct event_class *own = class->known ? class->known : class;

	for (unsigned int fields = 0; fields < GRAPH_SETS; fields++)
		for (unsigned int i = 0; i < GRAPH_NR_CLASSES; i++)
			if (own == &classes[fields][i]) {
				*out = (enum graph_class)i;
				return true;
			}
	return false;
}

/* --- system calls ---------------------------------------------------------------------------- */

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
#define STACK                                                                             \
	{                                                                                 \
		.name = "stack", .type = EVENT_STACK, .size = sizeof(uint64_t),           \
		.at = offsetof(struct call_stack_event, stack), .bits = {16, 16, 16, 64}, \
		.implied = 0                                                              \
	}

static const struct event_field sys_enter[] = {PID, IP, ARGUMENTS, FRAME};
static const struct event_field sys_enter_comm[] = {PID, COMM, IP, ARGUMENTS, FRAME};
static const struct event_field sys_enter_stack[] = {PID, IP, ARGUMENTS, FRAME, STACK};
static const struct event_field sys_enter_comm_stack[] = {PID, COMM, IP, ARGUMENTS, FRAME, STACK};
static const struct event_field sys_exit[] = {PID, RET, FRAME};
static const struct event_field sys_exit_comm[] = {PID, COMM, RET, FRAME};

#define CLASS(name_, event_, fields_)                                               \
	{                                                                           \
		.system = "syscalls", .name = name_, .fields = fields_,             \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = 4, \
		.size = sizeof(struct event_)                                       \
	}

#define CLASSES(event_, enter_fields, exit_fields)                                   \
	{                                                                            \
		[SYSCALL_ENTER] = CLASS("sys_enter", event_, enter_fields),          \
		[SYSCALL_EXIT] = CLASS("sys_exit", syscall_event, exit_fields),      \
		[SYSCALL_ENTER_ONLY] = CLASS("sys_enter_only", event_, enter_fields) \
	}

static const struct event_class system_calls[SYSCALL_SETS][SYSCALL_NR_CLASSES] = {
	[0] = CLASSES(syscall_event, sys_enter, sys_exit),
	[SYSCALL_COMM] = CLASSES(syscall_event, sys_enter_comm, sys_exit_comm),
	[SYSCALL_STACK] = CLASSES(call_stack_event, sys_enter_stack, sys_exit),
	[SYSCALL_STACK | SYSCALL_COMM] =
		CLASSES(call_stack_event, sys_enter_comm_stack, sys_exit_comm),
};

const struct event_class *syscall_classes(unsigned int fields)
{
	return system_calls[fields & (SYSCALL_SETS - 1)];
}

bool syscall_class_of(const struct event_class *class, enum syscall_class *out)
{
	const struct event_class *own = class->known ? class->known : class;

	for (unsigned int fields = 0; fields < SYSCALL_SETS; fields++)
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

bool event_class_is_return(const struct event_class *class)
{
	enum syscall_class syscall;
	enum graph_class graph;

	if (graph_class_of(class, &graph))
		return graph == GRAPH_EXIT;
	return syscall_class_of(class, &syscall) && syscall == SYSCALL_EXIT;
}
