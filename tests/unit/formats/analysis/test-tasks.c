/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde report and diff by task, on traces that say more or less about tasks. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { ALLOCS = 6, MANY = 70000 };

/* Of the shell 3 of 64 bytes, of its child 2 as the shell and 1 as cat. */
static struct kmem_task_record record_of(unsigned int i)
{
	struct kmem_task_record r = {.record = make_alloc(KMEM_TYPE_KMALLOC,
							  0x1000 + 64 * (uint64_t)i, 0x5010, 60, 64,
							  1000 + i),
				     .task = {.pid = i < 3 ? 100 : 102, .tgid = i < 3 ? 100 : 101}};

	strcpy(r.task.comm, i < 5 ? "sh" : "cat");
	return r;
}

/* As many tasks as allocations. */
static struct kmem_task_record record_of_many(unsigned int i)
{
	struct kmem_task_record r = record_of(0);

	r.record.ptr += 64 * (uint64_t)i;
	r.task.pid = i + 1;
	return r;
}

static struct scratch write_trace(unsigned int fields, unsigned int n,
				  struct kmem_task_record (*make)(unsigned int))
{
	struct scratch dir = scratch_make();
	const struct trace_instance instance = {.name = "kmem",
						.spec = "kmem",
						.classes = kmem_classes_of(fields),
						.nr_classes = KMEM_NR_CLASSES};
	struct event_batch batch = {0};
	struct trace_info info = {.tool_version = "test"};
	struct trace_writer *writer;
	int number;

	if (trace_writer_create(dir.path, 1, 0, &info, &writer, NULL))
		abort();
	number = trace_writer_add_instance(writer, &instance, NULL);
	for (unsigned int i = 0; number >= 0 && i < n; i++) {
		const struct kmem_task_record r = make(i);

		if (event_batch_put(&batch, trace_writer_sink(writer, (unsigned int)number, 0),
				    KMEM_CLASS_KMALLOC, r.record.timestamp, &r))
			abort();
	}
	event_batch_end(&batch);
	if (number < 0 || trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	return dir;
}

/* Live objects of a group. */
static uint64_t objects_of(const json_t *groups, const char *task)
{
	const json_t *group;
	size_t i;

	json_array_foreach(groups, i, group)
	{
		const char *name = json_string_value(json_object_get(group, "task"));

		if (name && !strcmp(name, task))
			return (uint64_t)json_integer_value(json_object_get(group, "live_objects"));
	}
	return 0;
}

static void test_names(void)
{
	static const struct {
		unsigned int fields;
		size_t groups;
		const char *task;
		uint64_t objects;
		const char *what;
	} rows[] = {
		{EVENT_TASK_ALL, 3, "sh-102", 2, "a task has its name and pid"},
		{EVENT_TASK_COMM, 2, "sh", 5, "without pids, what has the same name is a task"},
		{EVENT_TASK_PID, 2, "102", 3, "without names, a task is its pid"},
		{EVENT_TASK_TGID | EVENT_TASK_COMM, 3, "sh-101", 2,
		 "without pids, a task has its process's"},
		{0, 1, "(unknown)", 6, "a trace without tasks has one group"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scratch dir = write_trace(rows[i].fields, ALLOCS, record_of);
		const json_t *groups;
		json_t *root;

		root = verb_json(cmd_report, (const char *const[]){"report", "--json", "--by",
								   "task", dir.path, NULL});
		groups = json_object_get(root, "tasks");
		is_u64(json_array_size(groups), rows[i].groups, "each task is a group");
		is_u64(objects_of(groups, rows[i].task), rows[i].objects, rows[i].what);
		json_decref(root);
		scratch_remove(&dir);
	}
}

static void test_many(void)
{
	struct scratch dir = write_trace(EVENT_TASK_ALL, MANY, record_of_many);
	json_t *root;

	root = verb_json(cmd_report,
			 (const char *const[]){"report", "--json", "--by", "task", "--top", "1",
					       "--sort", "live", dir.path, NULL});
	is_u64(objects_of(json_object_get(root, "tasks"), "(others)"), MANY - 65534,
	       "tasks beyond 65,534 are one group");
	json_decref(root);
	scratch_remove(&dir);
}

static void test_diff(void)
{
	struct scratch dir = write_trace(EVENT_TASK_COMM, ALLOCS, record_of);
	json_t *root;

	root = verb_json(cmd_diff, (const char *const[]){"diff", "--json", "--by", "task", dir.path,
							 dir.path, NULL});
	is_u64(json_array_size(json_object_get(root, "changes")), 2, "diff compares tasks by name");
	json_decref(root);
	scratch_remove(&dir);
}

int main(void)
{
	test_names();
	test_many();
	test_diff();
	return tap_done();
}
