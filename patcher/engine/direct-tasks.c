/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where code finds what is recorded of the task. */
#include <errno.h>
#include <string.h>
#include "introspect/tasks/task-reader.h"
#include "patcher/engine/ring-internal.h"

enum {
	TASK_TRIES = 100, /* to find each vCPU with a task that runs ... */
	TASK_WAIT_MS = 1,
};

_Static_assert((int)DIRECT_PID == EVENT_TASK_PID && (int)DIRECT_TGID == EVENT_TASK_TGID &&
		       (int)DIRECT_COMM == EVENT_TASK_COMM &&
		       (int)DIRECT_CGROUP == EVENT_TASK_CGROUP &&
		       (int)DIRECT_STACK == EVENT_TASK_STACK,
	       "the task's fields by their bits");

/* enum event_task_fields */
static uint32_t wanted_of_task(const struct direct_change *change)
{
	uint32_t wanted = 0;

	for (size_t i = 0; i < change->nr_wants; i++) {
		const struct direct_want *want = &change->wants[i];

		wanted |= want->fields & DIRECT_TASK_FIELDS;
		wanted |= want->gate ? gate_task_fields(want->gate) : 0;
	}
	return wanted;
}

/* All captures that have some agree. */
uint32_t direct_view_task_fields(const struct ring_engine *x, const struct probe_view *view)
{
	const struct task_places *places = NULL;

	for (size_t i = 0; view && !places && i < x->config.plan->nr_refs; i++)
		places = view->probes[i]->entry.task ? view->probes[i]->entry.task
						     : view->probes[i]->ret.task;
	return places ? places->fields : 0;
}

/* What is known by the image is checked on each vCPU. */
static int read_task(struct ring_engine *x, uint32_t fields, struct error *err)
{
	struct task_places places;
	struct percpu_task task;
	int ret = task_places_find(x->kernel, fields & ~(uint32_t)EVENT_TASK_STACK, &places, err);

	if (!ret)
		ret = x->guest->control->stop(x->guest, err);
	if (ret)
		return ret;
	ret = percpu_current_task(x->kernel, &task, err);
	x->guest->control->resume(x->guest, NULL);
	if (ret)
		return ret;
	x->facts.current_task = task.displacement;
	x->facts.task_pid = task.pid;
	x->facts.task_comm = task.comm;
	if (fields & EVENT_TASK_TGID)
		x->facts.task_tgid = places.tgid;
	if (fields & EVENT_TASK_CGROUP)
		memcpy(x->facts.cgroup_path, places.cgroup_path, sizeof(x->facts.cgroup_path));
	x->direct.task_fields |= EVENT_TASK_PID | EVENT_TASK_COMM | EVENT_TASK_STACK | fields;
	return 0;
}

/* A vCPU may be between two tasks. */
static int find_task(struct ring_engine *x, uint32_t fields, struct error *err)
{
	int ret = -EAGAIN;

	for (int i = 0; i < TASK_TRIES; i++) {
		ret = read_task(x, fields, err);
		if (ret != -EAGAIN)
			break;
		clock_wait_ms(TASK_WAIT_MS);
	}
	if (ret)
		error_prefix(err, "tasks cannot be recorded: ");
	return ret;
}

int direct_find_tasks(struct ring_engine *x, const struct direct_change *change, struct error *err)
{
	const uint32_t fields = wanted_of_task(change) | direct_view_task_fields(x, change->view);

	return fields & ~x->direct.task_fields ? find_task(x, fields, err) : 0;
}
