/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_FUNCTION_H
#define SONDE_FORMATS_EVENT_FUNCTION_H

#include <stdint.h>
#include "formats/event/task.h"

/* Events of the function tracer: the guest entered a function. */
struct function_event {
	uint64_t ip;        /* the function's mcount site, as in the kernel's own event: its first
			     * instruction, or the second behind an ENDBR */
	uint64_t parent_ip; /* where it returns to */
	/* the task's, as in struct event_task */
	uint64_t cgroup;
	uint32_t pid, tgid;
	char comm[16];
};

/* The same with a call chain. */
struct function_stack_event {
	struct function_event call;
	uint64_t stack[EVENT_STACK_WORDS]; /* parent_ip first */
};

/* With a frame: an event of the graph tracer (graph.h). */
struct graph_event {
	struct function_event call; /* of entries */
	uint64_t frame;             /* gva of the return address on the guest's stack */
	uint64_t result;            /* of returns: RAX, which means nothing after a void function */
};

/* What is recorded beside `ip`: of the task as enum event_task_fields, and the caller. */
enum function_fields {
	FUNCTION_PID = EVENT_TASK_PID,
	FUNCTION_TGID = EVENT_TASK_TGID,
	FUNCTION_COMM = EVENT_TASK_COMM,
	FUNCTION_CGROUP = EVENT_TASK_CGROUP,
	FUNCTION_STACK = EVENT_TASK_STACK,
	FUNCTION_PARENT = 1 << EVENT_TASK_FIELDS,
	FUNCTION_ALL = EVENT_TASK_ALL | FUNCTION_PARENT, /* but for the call chain */
	FUNCTION_SETS = 2 * FUNCTION_PARENT,
};

/*
 * The class of events with these fields: the same one for the same set, in an array in the order of
 * the sets. Its events' bytes are a struct function_event, or with FUNCTION_STACK a struct
 * function_stack_event, of which the other members are not read.
 */
const struct event_class *function_class(unsigned int fields);

#endif
