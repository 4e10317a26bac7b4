/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Other readers find an event's task in its context, by LTTng's names; sonde reads it back. */
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"
#include "tests/lib/babeltrace.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { TASKS = 3 };

/* The last one does not fit the small forms. */
static struct kmem_task_record record_of(unsigned int i)
{
	struct kmem_task_record r = {
		.record =
			make_free(KMEM_TYPE_KMALLOC, UINT64_C(0xffff888000001000), 4096, 1000 + i),
		.task = {.pid = 101 + i, .tgid = 100, .cgroup = i + 1 < TASKS ? 5 : UINT32_MAX}};

	memcpy(r.task.comm, i ? "worker/1" : "none", i ? 8 : 4);
	return r;
}

/* Events of one class, a nanosecond after each other. */
static void put_trace(const char *dir, const struct trace_instance *instance, unsigned int class,
		      const void *events, size_t size, unsigned int n)
{
	struct event_batch batch = {0};
	struct trace_info info = {.tool_version = "test"};
	struct trace_writer *writer;
	int number;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	number = trace_writer_add_instance(writer, instance, NULL);
	for (unsigned int i = 0; number >= 0 && i < n; i++)
		if (event_batch_put(&batch, trace_writer_sink(writer, (unsigned int)number, 0),
				    class, 1000 + i, (const char *)events + i * size))
			abort();
	event_batch_end(&batch);
	if (number < 0 || trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void write_trace(const char *dir, unsigned int fields)
{
	const struct trace_instance instance = {.name = "kmem",
						.spec = "kmem",
						.classes = kmem_classes_of(fields),
						.nr_classes = KMEM_NR_CLASSES};
	struct kmem_task_record records[TASKS];

	for (unsigned int i = 0; i < TASKS; i++)
		records[i] = record_of(i);
	put_trace(dir, &instance, KMEM_CLASS_KFREE, records, sizeof(records[0]), TASKS);
}

static void test_judge(const char *dir)
{
	static const char *const contexts[TASKS] = {
		"{ tid = 101, pid = 100, procname = ( \"none\" : container = 1 ), cgroup = 5 }",
		"{ tid = 102, pid = 100, procname = ( \"worker/1\" : container = 2 ), cgroup = 5 }",
		"{ tid = 103, pid = 100, procname = \"worker/1\", cgroup = 4294967295 }"};
	char *text;
	int status = babeltrace_run("", dir, &text);

	if (status == 127) {
		ok(true, "# SKIP babeltrace2 is not installed");
		free(text);
		return;
	}
	is_u64((uint64_t)status, 0, "babeltrace2 reads the trace");
	for (unsigned int i = 0; i < TASKS; i++)
		ok(strstr(text, contexts[i]), "context %u is: %s", i, contexts[i]);
	ok(!strstr(text, "context") && strstr(text, "ptr = "), "the rest is the payload");
	free(text);
}

static void test_reader(const char *dir)
{
	struct trace_reader *reader;
	struct event event;
	unsigned int n = 0;

	if (trace_reader_open(dir, &reader, NULL))
		abort();
	for (; trace_reader_next(reader, &event, NULL) == 1; n++) {
		const struct event_class *class = event.class;
		const struct kmem_task_record want = record_of(n);
		char comm[EVENT_STRING_MAX + 1];
		struct kmem_record got;

		event_field_text(event_field_find(class, "comm"), event.bytes, comm);
		ok(event_field_value(event_field_find(class, "pid"), event.bytes) ==
				   want.task.pid &&
			   event_field_value(event_field_find(class, "tgid"), event.bytes) == 100 &&
			   event_field_value(event_field_find(class, "cgroup"), event.bytes) ==
				   want.task.cgroup &&
			   !strcmp(comm, want.task.comm),
		   "event %u has its task", n);
		ok(kmem_record_of(&event, &got) && got.ptr == want.record.ptr &&
			   got.event_id == KMEM_EVENT_FREE,
		   "event %u is a record", n);
	}
	is_u64(n, TASKS, "all events are read");
	trace_reader_close(reader);
}

/* Of calls, whose bytes begin with other things. */
static void test_calls(void)
{
	const struct event_class *const classes[] = {
		function_class(FUNCTION_PID | FUNCTION_COMM | FUNCTION_PARENT),
		graph_classes(GRAPH_COMM | GRAPH_STACK),
		syscall_classes(SYSCALL_COMM),
		&syscall_classes(SYSCALL_COMM)[SYSCALL_EXIT],
		function_class(FUNCTION_ALL),
		graph_classes(GRAPH_ALL | GRAPH_STACK),
		syscall_classes(SYSCALL_ALL),
		&syscall_classes(SYSCALL_ALL)[SYSCALL_EXIT]};
	const struct call_stack_event event = {
		.call.call.call = {.ip = 4096, .pid = 7, .tgid = 6, .cgroup = 55, .comm = "task"}};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		const struct trace_instance instance = {
			.name = "calls", .spec = "calls", .classes = classes[i], .nr_classes = 1};
		struct scratch dir = scratch_make();
		char *text;

		put_trace(dir.path, &instance, 0, &event, sizeof(event), 1);
		if (babeltrace_run("", dir.path, &text) == 127)
			ok(true, "# SKIP babeltrace2 is not installed");
		else
			ok(strstr(text,
				  i < 4 ? "{ tid = 7, procname = ( \"task\" : container = 1 ) }, { "
					: "{ tid = 7, pid = 6, procname = ( \"task\" : "
					  "container = 1 ), cgroup = 55 }, { "),
			   "%s:%s has a context in front of its fields", classes[i]->system,
			   classes[i]->name);
		free(text);
		scratch_remove(&dir);
	}
}

int main(void)
{
	struct scratch dir = scratch_make();
	char trace[128];

	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	write_trace(trace, EVENT_TASK_ALL);
	test_judge(trace);
	test_reader(trace);
	test_calls();
	scratch_remove(&dir);
	return tap_done();
}
