/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_GRAPH_H
#define SONDE_FORMATS_EVENT_GRAPH_H

#include "formats/event/function.h"

/*
 * Events of the graph tracer, each a struct graph_event: the guest entered a function, and returned
 * from it. What belongs together is known by the frame: a call's is not that of any other call that
 * is open, but for tail calls, which share the frame of the function that they end
 * (formats/graph/calls.h).
 */
enum graph_class {
	GRAPH_ENTRY,
	GRAPH_EXIT,
	GRAPH_CALL, /* entry of a function whose return cannot be recorded */
	GRAPH_TAIL, /* entry of a function that recorded ones jump to: it may be a tail call */
	GRAPH_NR_CLASSES,
};

/* What is recorded beside ip, parent_ip, pid and frame. What is of the task is as in enum
 * event_task_fields, and of entries: a return is of the task of its entry. */
enum graph_fields {
	GRAPH_TGID = EVENT_TASK_TGID,
	GRAPH_COMM = EVENT_TASK_COMM,
	GRAPH_CGROUP = EVENT_TASK_CGROUP,
	GRAPH_STACK = EVENT_TASK_STACK,
	GRAPH_RESULT = 1 << EVENT_TASK_FIELDS,                             /* of returns */
	GRAPH_ALL = GRAPH_TGID | GRAPH_COMM | GRAPH_CGROUP | GRAPH_RESULT, /* but for the chain */
};

/*
 * The classes of an instance that records these fields, by enum graph_class: the same array for the
 * same fields. Their events' bytes are a struct graph_event, of entries with
 * GRAPH_STACK a struct call_stack_event, of which the other members are not read.
 */
const struct event_class *graph_classes(unsigned int fields);

/* Whether an event is of one of these, in a trace that is read too; *out says which. */
bool graph_class_of(const struct event_class *class, enum graph_class *out);
/* Whether an instance is of the graph tracer. */
bool graph_is_of(const struct trace_instance *instance);

/* --- system calls --------------------------------------------------------------------------- */

enum { SYSCALL_ARGS = 6 };

/*
 * Events of the syscalls tracer: a task called the kernel, and the kernel's function returned. They
 * are paired as those of the graph tracer, by the frame.
 */
struct syscall_event {
	struct graph_event call;     /* `ip` is in the system call's function, __x64_sys_NAME */
	uint64_t args[SYSCALL_ARGS]; /* the registers, also those that the call does not use */
};

/* An entry with a call chain: of the graph tracer, too, whose events have no arguments. */
struct call_stack_event {
	struct syscall_event call;
	uint64_t stack[EVENT_STACK_WORDS]; /* from where the function returns to */
};

enum syscall_class {
	SYSCALL_ENTER,
	SYSCALL_EXIT,
	SYSCALL_ENTER_ONLY, /* of a system call whose return is not recorded */
	SYSCALL_NR_CLASSES,
};

/* What is recorded beside ip, arguments, pid, frame and result: of the task as in enum
 * event_task_fields, at entries and returns. */
enum syscall_fields {
	SYSCALL_TGID = EVENT_TASK_TGID,
	SYSCALL_COMM = EVENT_TASK_COMM,
	SYSCALL_CGROUP = EVENT_TASK_CGROUP,
	SYSCALL_STACK = EVENT_TASK_STACK,                           /* of entries */
	SYSCALL_ALL = SYSCALL_TGID | SYSCALL_COMM | SYSCALL_CGROUP, /* but for the chain */
};

/* As graph_classes(), by enum syscall_class; the bytes are a struct syscall_event, of entries with
 * SYSCALL_STACK a struct call_stack_event. */
const struct event_class *syscall_classes(unsigned int fields);

/* Whether an event is of one of these, in a trace that is read too; *out says which. */
bool syscall_class_of(const struct event_class *class, enum syscall_class *out);
/* Whether an instance is of the syscalls tracer. */
bool syscall_is_of(const struct trace_instance *instance);

/* Whether its events are ends of calls whose begins are events, too, of either tracer. */
bool event_class_is_return(const struct event_class *class);

#endif
