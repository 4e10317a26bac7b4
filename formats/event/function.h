/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_FUNCTION_H
#define SONDE_FORMATS_EVENT_FUNCTION_H

#include <stdint.h>
#include "formats/event/event.h"

/* Events of the function tracer: the guest entered a function. */
struct function_event {
	uint64_t ip;        /* the function's mcount site, as in the kernel's own event: its first
			     * instruction, or the second behind an ENDBR */
	uint64_t parent_ip; /* where it returns to */
	uint32_t pid;       /* of the thread, as the guest's kernel numbers it; 0: idle */
	char comm[16];      /* the thread's name, filled up with NULs */
	uint32_t padding;
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

/* What is recorded beside `ip`. */
enum function_fields {
	FUNCTION_PARENT = 1 << 0,
	FUNCTION_PID = 1 << 1,
	FUNCTION_COMM = 1 << 2,
	FUNCTION_ALL = FUNCTION_PARENT | FUNCTION_PID | FUNCTION_COMM,
	FUNCTION_STACK = 1 << 3,
};

/*
 * The class of events with these fields: a constant, one for each set. Its events' bytes are a
 * struct function_event, or with FUNCTION_STACK a struct function_stack_event, of which the other
 * members are not read.
 */
const struct event_class *function_class(unsigned int fields);

#endif
