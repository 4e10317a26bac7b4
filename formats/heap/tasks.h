/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_TASKS_H
#define SONDE_FORMATS_HEAP_TASKS_H

#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/event/event.h"

/* Numbers of the tasks that allocate, small enough to be kept with each object. */
enum {
	TASK_UNKNOWN = 0 /* the trace does not say which */,
	TASK_OTHER = UINT16_MAX /* too many */
};

struct task_name {
	char comm[EVENT_STRING_MAX + 1];
	uint8_t has_comm, has_id;
	uint32_t id;   /* pid, or if the trace lacks it tgid */
	uint32_t next; /* with the same hash: its number; 0: none */
};

struct heap_tasks {
	struct u64_map by_hash; /* number of the latest one */
	struct task_name *all;  /* by number; the first is not used */
	uint32_t count, room;
	const struct event_class *class; /* whose fields these are */
	const struct event_field *comm, *id;
};

/* Allocates nothing. */
void heap_tasks_init(struct heap_tasks *tasks);
void heap_tasks_deinit(struct heap_tasks *tasks);

/* The number of the task of an event of kmem; -ENOMEM. */
int heap_tasks_number(struct heap_tasks *tasks, const struct event *event);

/* "sh-123", "sh" or "123", as much as the trace says; "(unknown)", "(others)". */
struct text heap_tasks_text(const struct heap_tasks *tasks, uint16_t number);

#endif
