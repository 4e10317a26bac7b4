/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/task-reader.h"
#include "patcher/probe/chain.h"
#include "patcher/tracers/tracer.h"

int tracer_check_task(const struct kernel *kernel, uint32_t fields, const struct gate *gate,
		      struct error *err)
{
	const uint32_t wanted = fields | (gate ? gate_task_fields(gate) : 0);
	struct task_places places;
	int ret = 0;

	if (wanted & (EVENT_TASK_TGID | EVENT_TASK_CGROUP))
		ret = task_places_find(kernel, wanted & EVENT_TASK_ALL, &places, err);
	if (ret)
		error_prefix(err, "tasks cannot be recorded: ");
	return ret || !(wanted & EVENT_TASK_STACK) ? ret : chain_check(kernel, err);
}
