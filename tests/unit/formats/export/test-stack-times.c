/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time of calls by stack: functions without the calls in them, and system calls. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"
#include "tests/lib/trace-make.h"

#define STACK UINT64_C(0xffffc90000104000) /* the upper end of a stack */
#define AT(number) (UINT64_C(0xffffffff81000000) + 0x1000 * (number))

enum { READER = 7, DEEP = 300 };

static struct {
	struct scratch dir;
	char trace[128];
	struct trace_writer *writer;
} t;

static const struct trace_info info = {.tool_version = "1"};

static void begin(unsigned int graph_fields)
{
	t.dir = scratch_make();
	snprintf(t.trace, sizeof(t.trace), "%s/trace", t.dir.path);
	if (trace_writer_create(t.trace, 1, 0, &info, &t.writer, NULL))
		abort();
	trace_add(t.writer, "graph", graph_classes(graph_fields), GRAPH_NR_CLASSES);
	trace_add(t.writer, "syscalls", syscall_classes(0), SYSCALL_NR_CLASSES);
}

static void end(void)
{
	if (trace_writer_finish(t.writer, &info, name_numbered, NULL, NULL))
		abort();
	trace_writer_destroy(t.writer);
}

/* A function calls from the one with the next number, `depth` words below the stack's end. */
static void enter(enum graph_class class, unsigned int function, unsigned int depth, int64_t ns)
{
	const struct call_stack_event event = {
		.call.call = {.call = {.ip = AT(function),
				       .parent_ip = AT(function + 1) + 8,
				       .pid = READER},
			      .frame = STACK - depth * 8},
		.stack = {AT(function + 1) + 8, AT(9)}};

	trace_put(t.writer, 0, class, ns, &event);
}

static void leave(unsigned int depth, int64_t ns)
{
	const struct graph_event event = {.frame = STACK - depth * 8};

	trace_put(t.writer, 0, GRAPH_EXIT, ns, &event);
}

static void call_system(unsigned int function, uint32_t pid, enum syscall_class class, int64_t ns)
{
	const struct syscall_event event = {
		.call = {.call = {.ip = AT(function), .pid = pid}, .frame = STACK + pid * 0x4000}};

	trace_put(t.writer, 1, class, ns, &event);
}

static char *convert(const char *format, const char *name)
{
	char path[160];
	const char *argv[] = {"convert", t.trace, "--to", format, "-o", path, "-vtime", NULL};
	struct verb_result result;

	snprintf(path, sizeof(path), "%s/%s", t.dir.path, name);
	result = verb_run(cmd_convert, argv);
	if (result.status)
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	return file_get(t.dir.path, name, NULL);
}

static void folds(const char *want, const char *label)
{
	char *text = convert("folded", "folded");

	is_str(text ? text : "none", want, label);
	free(text);
	scratch_remove(&t.dir);
}

static void test_nested(void)
{
	begin(0);
	enter(GRAPH_ENTRY, 3, 0, 1000);
	enter(GRAPH_ENTRY, 2, 8, 2000);
	enter(GRAPH_TAIL, 1, 16, 3000);
	leave(16, 3500);
	leave(8, 5000);
	enter(GRAPH_ENTRY, 1, 8, 6000);
	leave(8, 6001);
	leave(0, 9000);
	end();
	folds("graph:entry;f4;f3 4999\n"
	      "graph:entry;f4;f3;f1 1\n"
	      "graph:entry;f4;f3;f2 2500\n"
	      "graph:entry;f4;f3;f2;f1 500\n",
	      "each function has its time without that of the calls in it");
}

static void test_unseen(void)
{
	begin(0);
	enter(GRAPH_ENTRY, 3, 0, 1000);
	enter(GRAPH_CALL, 2, 8, 2000);
	enter(GRAPH_ENTRY, 1, 16, 3000);
	leave(16, 3500);
	leave(0, 9000);
	enter(GRAPH_ENTRY, 5, 0, 10000);
	end();
	folds("graph:entry;f4;f3 7500\n"
	      "graph:entry;f4;f3;f2;f1 500\n",
	      "a call whose return is not in the trace has no time, which its caller has");
}

static void test_chains(void)
{
	begin(GRAPH_STACK);
	enter(GRAPH_ENTRY, 3, 0, 1000);
	enter(GRAPH_ENTRY, 1, 8, 2000);
	leave(8, 2100);
	leave(0, 3000);
	end();
	folds("graph:entry;f9;f2;f1 100\n"
	      "graph:entry;f9;f4;f3 1900\n",
	      "chains that are recorded are the stacks");
}

static void test_deep(void)
{
	char *text;

	begin(0);
	for (unsigned int i = 0; i < DEEP; i++)
		enter(GRAPH_ENTRY, i % 8, i + 1, i + 1);
	for (unsigned int i = DEEP; i > 0; i--)
		leave(i, 2 * DEEP + 2 - i);
	end();
	text = convert("folded", "folded");
	ok(text && strstr(text, "graph:entry;[cut];") && strstr(text, "graph:entry;f1;f0 2\n"),
	   "of %u calls within each other the stacks are cut", DEEP);
	free(text);
	text = convert("flamegraph", "svg");
	ok(text && strstr(text, " y=\"64\" width"),
	   "a flame graph has a box at its upper end, where the deepest stacks end");
	free(text);
	scratch_remove(&t.dir);
}

static void put_system_calls(void)
{
	begin(0);
	call_system(1, READER, SYSCALL_ENTER, 1000);
	call_system(2, READER + 1, SYSCALL_ENTER, 1500);
	call_system(1, READER, SYSCALL_EXIT, 4000);
	call_system(1, READER, SYSCALL_ENTER, 5000);
	call_system(1, READER, SYSCALL_EXIT, 5001);
	call_system(2, READER + 1, SYSCALL_EXIT, 6000);
	call_system(3, READER, SYSCALL_ENTER_ONLY, 7000);
	call_system(4, READER, SYSCALL_ENTER, 8000);
	end();
}

static void test_system_calls(void)
{
	put_system_calls();
	folds("syscalls:sys_enter;f1 3001\n"
	      "syscalls:sys_enter;f2 4500\n",
	      "system calls have their durations, tasks side by side");
}

static void test_formats(void)
{
	char *text;

	put_system_calls();
	text = convert("flamegraph", "svg");
	ok(text && strstr(text, "f2: 4500 ns"), "a flame graph has nanoseconds");
	free(text);
	free(convert("pprof", "pprof"));
	if (!tool_exists("protoc")) {
		tap_skip("protoc reads the profile", "protoc is not installed");
	} else {
		tool_run(&text,
			 "gzip -dc '%s/pprof' | protoc "
			 "--proto_path=tests/unit/formats/export/data --decode=Profile "
			 "profile.proto",
			 t.dir.path);
		ok(strstr(text, "value: 2\n  value: 3001\n") &&
			   strstr(text, "string_table: \"time\"\n") &&
			   strstr(text, "string_table: \"nanoseconds\"\n") &&
			   !strstr(text, "inuse"),
		   "a profile has how many calls there are, and their time");
		free(text);
	}
	scratch_remove(&t.dir);
}

int main(void)
{
	test_nested();
	test_unseen();
	test_chains();
	test_deep();
	test_system_calls();
	test_formats();
	return tap_done();
}
