/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/tasks/task-reader.h"

#include <errno.h>
#include <string.h>
#include "introspect/tasks/stack-scan.h"

static int find_offset(const struct kernel *kernel, const char *type, const char *member,
		       uint32_t size, uint32_t *offset, struct error *err)
{
	struct btf_field field;
	int ret = kernel_image_check_btf(kernel->image, err);

	if (!ret)
		ret = btf_field(kernel->image->btf, type, member, &field, err);
	if (!ret && (field.bit_size || field.size != size))
		ret = error_set(err, ENOENT, "BTF: %s.%s has %u bytes, not %u", type, member,
				field.size, size);
	if (!ret)
		*offset = field.offset;
	return ret;
}

static int find_cgroup(const struct kernel *kernel, struct task_places *out, struct error *err)
{
	static const struct {
		const char *type, *member;
	} steps[TASK_CGROUP_STEPS] = {{"task_struct", "cgroups"},
				      {"css_set", "dfl_cgrp"},
				      {"cgroup", "kn"},
				      {"kernfs_node", "id"}};
	int ret = 0;

	for (unsigned int i = 0; !ret && i < TASK_CGROUP_STEPS; i++)
		ret = find_offset(kernel, steps[i].type, steps[i].member, sizeof(uint64_t),
				  &out->cgroup_path[i], err);
	return ret;
}

int task_places_find(const struct kernel *kernel, uint32_t fields, struct task_places *out,
		     struct error *err)
{
	int ret;

	*out = (struct task_places){.fields = fields};
	ret = percpu_find_task(kernel, &out->task, err);
	if (!ret && out->task.comm_size < sizeof(((struct event_task *)0)->comm))
		ret = error_set(err, ENOTSUP, "task_struct.comm has only %u bytes",
				out->task.comm_size);
	if (!ret && fields & EVENT_TASK_TGID)
		ret = find_offset(kernel, "task_struct", "tgid", sizeof(uint32_t), &out->tgid, err);
	if (!ret && fields & EVENT_TASK_CGROUP)
		ret = find_cgroup(kernel, out, err);
	if (!ret && fields & EVENT_TASK_STACK)
		ret = find_offset(kernel, "task_struct", "stack", sizeof(uint64_t), &out->stack,
				  err);
	out->stack_bytes = task_stack_bytes(kernel->image);
	return ret;
}

static int read_cgroup(const struct kernel *kernel, const struct task_places *places, uint64_t task,
		       uint64_t *id, struct error *err)
{
	uint64_t at = task;
	int ret = 0;

	for (unsigned int i = 0; !ret && at && i < TASK_CGROUP_STEPS; i++)
		ret = kernel_read(kernel, at + places->cgroup_path[i], &at, sizeof(at), err);
	*id = at;
	return ret;
}

static int find_current(const struct kernel *kernel, const struct task_places *places,
			unsigned int cpu, uint64_t *task, struct error *err)
{
	uint64_t base;
	int ret = percpu_base(kernel, cpu, &base, err);

	if (!ret)
		ret = kernel_read(kernel, base + (uint64_t)places->task.displacement, task,
				  sizeof(*task), err);
	return ret;
}

int task_read_stack(const struct kernel *kernel, const struct task_places *places, unsigned int cpu,
		    uint64_t *stack, struct error *err)
{
	uint64_t task = 0;
	int ret = find_current(kernel, places, cpu, &task, err);

	return ret ? ret : kernel_read(kernel, task + places->stack, stack, sizeof(*stack), err);
}

int task_read_current(const struct kernel *kernel, const struct task_places *places,
		      unsigned int cpu, struct event_task *out, struct error *err)
{
	uint64_t task = 0;
	int ret = find_current(kernel, places, cpu, &task, err);

	*out = (struct event_task){0};
	if (!ret && places->fields & EVENT_TASK_PID)
		ret = kernel_read(kernel, task + places->task.pid, &out->pid, sizeof(out->pid),
				  err);
	if (!ret && places->fields & EVENT_TASK_TGID)
		ret = kernel_read(kernel, task + places->tgid, &out->tgid, sizeof(out->tgid), err);
	if (!ret && places->fields & EVENT_TASK_COMM)
		ret = kernel_read(kernel, task + places->task.comm, out->comm, sizeof(out->comm),
				  err);
	if (!ret && places->fields & EVENT_TASK_CGROUP)
		ret = read_cgroup(kernel, places, task, &out->cgroup, err);
	return ret;
}
