/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/tasks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void heap_tasks_init(struct heap_tasks *tasks)
{
	*tasks = (struct heap_tasks){.count = TASK_UNKNOWN + 1};
	u64_map_init(&tasks->by_hash, sizeof(uint32_t));
}

void heap_tasks_deinit(struct heap_tasks *tasks)
{
	u64_map_deinit(&tasks->by_hash);
	free(tasks->all);
}

static const struct event_field *find(const struct event_class *class, const char *name,
				      enum event_field_type type)
{
	const struct event_field *field = event_field_find(class, name);

	return field && field->type == type ? field : NULL;
}

static void learn_class(struct heap_tasks *tasks, const struct event_class *class)
{
	tasks->class = class;
	tasks->comm = find(class, "comm", EVENT_STRING);
	tasks->id = find(class, "pid", EVENT_UINT);
	if (!tasks->id)
		tasks->id = find(class, "tgid", EVENT_UINT);
}

static uint64_t hash_of(const struct task_name *name)
{
	uint64_t words[2];

	memcpy(words, name->comm, sizeof(words));
	words[0] = (words[0] ^ name->id) * UINT64_C(0x9e3779b97f4a7c15);
	words[0] ^= words[0] >> 29;
	return (words[0] ^ words[1]) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_same(const struct task_name *a, const struct task_name *b)
{
	return a->id == b->id && a->has_id == b->has_id && a->has_comm == b->has_comm &&
	       !strcmp(a->comm, b->comm);
}

static int reserve(struct heap_tasks *tasks)
{
	uint32_t room = tasks->room ? tasks->room * 2 : 64;
	struct task_name *bigger;

	if (tasks->count < tasks->room)
		return 0;
	bigger = reallocarray(tasks->all, room, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	tasks->all = bigger;
	tasks->room = room;
	return 0;
}

static int number_of(struct heap_tasks *tasks, struct task_name *name)
{
	const uint64_t hash = hash_of(name);
	uint32_t *latest = u64_map_find(&tasks->by_hash, hash);

	for (uint32_t i = latest ? *latest : 0; i; i = tasks->all[i].next) {
		if (is_same(&tasks->all[i], name))
			return (int)i;
	}
	if (tasks->count == TASK_OTHER)
		return TASK_OTHER;
	latest = reserve(tasks) ? NULL : u64_map_insert(&tasks->by_hash, hash, NULL);
	if (!latest)
		return -ENOMEM;
	name->next = *latest;
	tasks->all[tasks->count] = *name;
	*latest = tasks->count;
	return (int)tasks->count++;
}

int heap_tasks_number(struct heap_tasks *tasks, const struct event *event)
{
	struct task_name name = {.comm = ""};

	if (event->class != tasks->class)
		learn_class(tasks, event->class);
	if (!tasks->comm && !tasks->id)
		return TASK_UNKNOWN;
	name.has_comm = tasks->comm != NULL;
	name.has_id = tasks->id != NULL;
	if (tasks->comm)
		event_field_text(tasks->comm, event->bytes, name.comm);
	if (tasks->id)
		name.id = (uint32_t)event_field_value(tasks->id, event->bytes);
	return number_of(tasks, &name);
}

struct text heap_tasks_text(const struct heap_tasks *tasks, uint16_t number)
{
	const struct task_name *name;
	struct text out;

	if (number == TASK_UNKNOWN || number >= tasks->count) {
		snprintf(out.s, sizeof(out.s), "%s",
			 number == TASK_OTHER ? "(others)" : "(unknown)");
		return out;
	}
	name = &tasks->all[number];
	if (name->has_comm && name->has_id)
		snprintf(out.s, sizeof(out.s), "%s-%" PRIu32, name->comm, name->id);
	else if (name->has_comm)
		snprintf(out.s, sizeof(out.s), "%s", name->comm);
	else
		snprintf(out.s, sizeof(out.s), "%" PRIu32, name->id);
	return out;
}
