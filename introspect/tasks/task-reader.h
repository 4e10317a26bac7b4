/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_TASKS_TASK_READER_H
#define SONDE_INTROSPECT_TASKS_TASK_READER_H

#include "formats/event/task.h"
#include "introspect/tasks/percpu.h"

/*
 * Where a CPU finds what is recorded of its running task: its struct task_struct, the ids and the
 * name in there, and the path from there to the id of its cgroup. All pointers of that path are
 * NULL, or valid while the task runs: early in boot there is no cgroup.
 */
struct task_places {
	uint32_t fields; /* enum event_task_fields: of which the rest is known */
	struct percpu_task task;
	uint32_t tgid; /* offset in struct task_struct */
	/* Offsets of the pointers task_struct.cgroups, css_set.dfl_cgrp and cgroup.kn, and of
	 * kernfs_node.id. */
	uint32_t cgroup_path[4];
	uint32_t stack;       /* offset of the pointer to the task's stack, */
	uint32_t stack_bytes; /* which has so many bytes */
};
enum { TASK_CGROUP_STEPS = 4 };

/* The places of these fields, by the image alone. -ENOENT, -ENOTSUP: *err says what BTF or the
 * symbols lack. */
int task_places_find(const struct kernel *kernel, uint32_t fields, struct task_places *out,
		     struct error *err);

/* Read the fields of the task that runs on the guest's CPU of this number; the others are 0. The
 * CPU must not run. -EFAULT. */
int task_read_current(const struct kernel *kernel, const struct task_places *places,
		      unsigned int cpu, struct event_task *out, struct error *err);
/* The lowest address of its stack; with EVENT_TASK_STACK. Likewise. */
int task_read_stack(const struct kernel *kernel, const struct task_places *places, unsigned int cpu,
		    uint64_t *stack, struct error *err);

#endif
