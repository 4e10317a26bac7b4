/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_TASK_H
#define SONDE_FORMATS_EVENT_TASK_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/event/event.h"

/* The guest's task that an event belongs to, for events whose tracer was asked for it. */
struct event_task {
	uint32_t pid;    /* of the thread, as the guest's kernel numbers it; 0: idle */
	uint32_t tgid;   /* of its process */
	char comm[16];   /* the thread's name, filled up with NULs */
	uint64_t cgroup; /* id of its cgroup of version 2, as the guest's file handles and BPF have
			  * it; 0: none yet */
};

/* Which of these are recorded. */
enum event_task_fields {
	EVENT_TASK_PID = 1 << 0,
	EVENT_TASK_TGID = 1 << 1,
	EVENT_TASK_COMM = 1 << 2,
	EVENT_TASK_CGROUP = 1 << 3,
	/* the call chain on its stack: of the event's moment, where the others are the task's */
	EVENT_TASK_STACK = 1 << 4,
	EVENT_TASK_ALL = EVENT_TASK_PID | EVENT_TASK_TGID | EVENT_TASK_COMM | EVENT_TASK_CGROUP,
	EVENT_TASK_FIELDS = 5, /* how many there are, with the call chain */
};

/* Where events have them: bytes from the start. */
struct event_task_places {
	uint16_t pid, tgid, comm, cgroup, stack;
};

/* Whether a field of this name is one of the task's, which are recorded on demand. */
bool event_task_has_field(const char *name);

/*
 * *out = the class `plain` with these fields of the task in front, as contexts have to be in CTF,
 * and a call chain, which is long, behind all others. `fields` becomes the class's own: it has room
 * for EVENT_TASK_FIELDS more than `plain` has.
 */
void event_class_add_task(const struct event_class *plain, unsigned int wanted,
			  const struct event_task_places *places, struct event_field *fields,
			  struct event_class *out);

#endif
