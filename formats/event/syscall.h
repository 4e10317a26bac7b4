/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_SYSCALL_H
#define SONDE_FORMATS_EVENT_SYSCALL_H

#include "formats/event/graph.h"

enum { SYSCALL_ARGS = 6 };

/*
 * Events of the syscalls tracer: a task called the kernel, and the kernel's function returned. They
 * are paired as those of the graph tracer, by the frame.
 */
struct syscall_event {
	struct graph_event call;     /* `ip` is in the system call's function, __x64_sys_NAME */
	uint64_t args[SYSCALL_ARGS]; /* the registers, also those that the call does not use */
};

enum syscall_class {
	SYSCALL_ENTER,
	SYSCALL_EXIT,
	SYSCALL_ENTER_ONLY, /* of a system call whose return is not recorded */
	SYSCALL_NR_CLASSES,
};

/* What is recorded beside ip, arguments, pid, frame and result. */
enum syscall_fields {
	SYSCALL_COMM = 1 << 0,
	SYSCALL_ALL = SYSCALL_COMM,
};

/* As graph_classes(), by enum syscall_class; the bytes are a struct syscall_event. */
const struct event_class *syscall_classes(unsigned int fields);

/* Whether an event is of one of these, in a trace that is read too; *out says which. */
bool syscall_class_of(const struct event_class *class, enum syscall_class *out);

#endif
