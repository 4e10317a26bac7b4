/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of events of calls: as text, as JSON, as a value of a filter, and folded; and calls
 * with returns, folded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define READ UINT64_C(0xffffffff81001000)
#define SYSCALL UINT64_C(0xffffffff81002020)
#define ENTRY UINT64_C(0xffffffff81003030)

#define WHOLE                                              \
	"[000]     0.000000001 function:function: ip=f1\n" \
	"\t0xffffffff81002020 f2+0x20/0x90\n"              \
	"\t0xffffffff81003030 f3+0x30/0x90\n"
#define CUT                                                \
	"[000]     0.000000002 function:function: ip=f1\n" \
	"\t0xffffffff81003030 f3+0x30/0x90\n"              \
	"\t[cut]\n"
#define UNKNOWN                                            \
	"[000]     0.000000003 function:function: ip=f1\n" \
	"\t[cut]\n"

/* Events of the first class, a nanosecond after each other. */
static void put_events(const char *dir, const struct trace_instance *instance, const void *events,
		       size_t size, int n)
{
	static const struct trace_info info = {.tool_version = "1"};
	struct event_batch batch = {0};
	struct trace_writer *writer;
	struct event_sink *sink;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, instance, NULL) < 0)
		abort();
	sink = trace_writer_sink(writer, 0, 0);
	for (int i = 0; i < n; i++)
		if (event_batch_put(&batch, sink, 0, i + 1, (const char *)events + i * size))
			abort();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, name_numbered, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void put_trace(const char *dir)
{
	const struct trace_instance instance = {.name = "function",
						.spec = "function:stack",
						.classes = function_class(FUNCTION_STACK),
						.nr_classes = 1};
	const struct function_stack_event events[] = {
		{.call.ip = READ, .stack = {SYSCALL, ENTRY}},
		{.call.ip = READ, .stack = {ENTRY, EVENT_STACK_CUT}},
		{.call.ip = READ, .stack = {EVENT_STACK_CUT}}};

	put_events(dir, &instance, events, sizeof(events[0]), 3);
}

static void prints(const char *dir, const char *option, const char *value, const char *out)
{
	const char *argv[] = {"events", dir, option, value, NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	is_str(result.out, out, value ? value : "whole and cut chains");
	verb_result_deinit(&result);
}

static char *fold(const char *dir)
{
	struct scratch out = scratch_make();
	char path[256];
	const char *argv[] = {"convert", dir, "--to", "folded", "-o", path, NULL};
	struct verb_result result;
	char *folded;

	snprintf(path, sizeof(path), "%s/folded", out.path);
	result = verb_run(cmd_convert, argv);
	verb_result_deinit(&result);
	folded = file_get(out.path, "folded", NULL);
	scratch_remove(&out);
	return folded;
}

static void test_folded(const char *dir)
{
	char *folded = fold(dir);

	ok(folded && strstr(folded, "function:function;f3;f2;f1 1\n"), "a whole chain is folded");
	ok(folded && strstr(folded, "function:function;[cut];f3;f1 1\n") &&
		   strstr(folded, "function:function;[cut];f1 1\n"),
	   "chains that go on begin with a mark");
	free(folded);
}

/* A call within another one, and a system call: each with its return. */
static void put_calls(const char *dir)
{
	static const struct trace_info info = {.tool_version = "1"};
	const struct trace_instance graph = {.name = "graph",
					     .spec = "graph:f*",
					     .classes = graph_classes(0),
					     .nr_classes = GRAPH_NR_CLASSES},
				    syscalls = {.name = "syscalls",
						.spec = "syscalls",
						.classes = syscall_classes(0),
						.nr_classes = SYSCALL_NR_CLASSES};
	const struct graph_event outer = {.call = {.ip = SYSCALL, .parent_ip = ENTRY}, .frame = 64},
				 inner = {.call = {.ip = READ, .parent_ip = SYSCALL}, .frame = 32};
	const struct syscall_event call = {.call = {.call = {.ip = READ}, .frame = 16}};
	const struct {
		int instance;
		unsigned int class;
		const void *bytes;
	} events[] = {{0, GRAPH_ENTRY, &outer},  {0, GRAPH_ENTRY, &inner},
		      {0, GRAPH_EXIT, &inner},   {0, GRAPH_EXIT, &outer},
		      {1, SYSCALL_ENTER, &call}, {1, SYSCALL_EXIT, &call}};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &graph, NULL) < 0 ||
	    trace_writer_add_instance(writer, &syscalls, NULL) < 0)
		abort();
	for (unsigned int i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		trace_put(writer, events[i].instance, events[i].class, i + 1, events[i].bytes);
	if (trace_writer_finish(writer, &info, name_numbered, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void test_returns(void)
{
	struct scratch scratch = scratch_make();
	char *folded;

	put_calls(scratch.path);
	folded = fold(scratch.path);
	is_str(folded ? folded : "none",
	       "graph:entry;f2;f1 1\n"
	       "graph:entry;f3;f2 1\n"
	       "syscalls:sys_enter;f1 1\n",
	       "calls count once, and their returns do not");
	free(folded);
	scratch_remove(&scratch);
}

/* The tracers that record returns, too, with and without names of tasks. */
static void test_entries(void)
{
	const struct call_stack_event event = {
		.call.call = {.call = {.ip = READ, .pid = 7, .comm = "sh"}, .frame = ENTRY},
		.stack = {SYSCALL, ENTRY}};

	for (unsigned int fields = 0; fields < 4; fields++) {
		const unsigned int comm = fields & 1 ? EVENT_TASK_COMM : 0;
		const struct trace_instance instance = {
			.name = "calls",
			.spec = "calls",
			.classes = fields < 2 ? graph_classes(GRAPH_STACK | comm)
					      : syscall_classes(SYSCALL_STACK | comm),
			.nr_classes = 1};
		const char *argv[] = {"events", NULL, NULL};
		struct scratch scratch = scratch_make();
		struct verb_result result;

		argv[1] = scratch.path;
		put_events(scratch.path, &instance, &event, sizeof(event), 1);
		result = verb_run(cmd_events, argv);
		ok(strstr(result.out, "\n\t0xffffffff81002020 f2+0x20/0x90\n"
				      "\t0xffffffff81003030 f3+0x30/0x90\n") &&
			   !strstr(result.out, "comm=sh") == !(fields & 1),
		   "%s:%s has its call chain", instance.classes->system, instance.classes->name);
		verb_result_deinit(&result);
		scratch_remove(&scratch);
	}
}

int main(void)
{
	struct scratch scratch = scratch_make();

	put_trace(scratch.path);
	prints(scratch.path, NULL, NULL, WHOLE CUT UNKNOWN);
	prints(scratch.path, "--filter", "stack ~ 'f2*'", WHOLE);
	prints(scratch.path, "--filter", "stack.function == f3 && ip == f1", CUT);
	prints(scratch.path, "--json", NULL,
	       "{\"ns\":1,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[\"0xffffffff81002020\",\"0xffffffff81003030\"],"
	       "\"stack_symbol\":[\"f2+0x20/0x90\",\"f3+0x30/0x90\"],\"stack_cut\":false}\n"
	       "{\"ns\":2,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[\"0xffffffff81003030\"],"
	       "\"stack_symbol\":[\"f3+0x30/0x90\"],\"stack_cut\":true}\n"
	       "{\"ns\":3,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[],\"stack_symbol\":[],\"stack_cut\":true}\n");
	test_folded(scratch.path);
	test_returns();
	test_entries();
	scratch_remove(&scratch);
	return tap_done();
}
