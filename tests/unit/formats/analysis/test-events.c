/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `sonde report` shows of a trace follows from what was traced. */
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static struct trace_writer *writer;

/* Two instances of the graph tracer have a call each, that of the second takes twice as long; one
 * of the function tracer has three events. */
static void make_trace(const char *dir)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};
	const uint64_t hits[] = {0xa000, 0xb000, 0xb000};
	int calls[2], functions;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	calls[0] = trace_add(writer, "one", graph_classes(0), GRAPH_NR_CLASSES);
	calls[1] = trace_add(writer, "two", graph_classes(0), GRAPH_NR_CLASSES);
	functions = trace_add(writer, "hits", function_class(0), 1);
	for (int i = 0; i < 2; i++) {
		const struct graph_event event = {.call = {.ip = 0xc000, .pid = 1}, .frame = 0x80};

		trace_put(writer, calls[i], GRAPH_ENTRY, 1000, &event);
		trace_put(writer, calls[i], GRAPH_EXIT, 2000 + 1000 * i, &event);
	}
	for (int i = 0; i < 3; i++)
		trace_put(writer, functions, 0, 4000 + i, &(struct function_event){.ip = hits[i]});
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static struct verb_result report(const char *const *options, const char *dir)
{
	const char *argv[8] = {"report"};
	size_t n = 1;

	while (*options)
		argv[n++] = *options++;
	argv[n] = dir;
	return verb_run(cmd_report, argv);
}
#define REPORT(dir, ...) report((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, dir)

static void test_default(const char *dir)
{
	struct verb_result result = REPORT(dir);

	ok(!result.status && strstr(result.out, "7 records") && !strstr(result.out, "Memory"),
	   "a trace without allocations is not reported as one of no memory");
	ok(strstr(result.out, "  one       graph:entry\n") &&
		   strstr(result.out, "  two       graph:exit\n"),
	   "the events of each instance are counted");
	ok(strstr(result.out, "  hits      0xb000\n") &&
		   strstr(result.out, "0xb000\n") < strstr(result.out, "0xa000\n"),
	   "functions are listed by their hits, the most first");
	ok(strstr(result.out, "Calls of the instance one\n") && strstr(result.out, "1.0 us"),
	   "the calls of one graph instance are listed, those of others are not mixed in");
	verb_result_deinit(&result);
}

static void test_instance(const char *dir)
{
	struct verb_result result = REPORT(dir, "--by", "function", "--instance", "two");

	ok(!result.status && strstr(result.out, "Calls of the instance two\n") &&
		   strstr(result.out, "2.0 us") && !strstr(result.out, "0xb000\n"),
	   "--by function of a graph instance shows its calls");
	verb_result_deinit(&result);
	result = REPORT(dir, "--instance", "three");
	ok(result.status == 2 &&
		   strstr(result.err, "--instance takes one, two or hits, not 'three'"),
	   "an unknown instance is answered with those that there are");
	verb_result_deinit(&result);
	result = verb_run(cmd_events,
			  (const char *const[]){"events", "--instance", "three", dir, NULL});
	ok(result.status == 2 &&
		   strstr(result.err, "--instance takes one, two or hits, not 'three'"),
	   "by sonde events, too");
	verb_result_deinit(&result);
}

static void test_check(const char *dir)
{
	struct verb_result result = verb_run(cmd_check, (const char *const[]){"check", dir, NULL});

	ok(!result.status && strstr(result.out, "7 records"),
	   "a trace without allocations can be checked");
	verb_result_deinit(&result);
}

static void test_refusals(const char *dir)
{
	struct verb_result result = REPORT(dir, "--by", "cache");

	ok(result.status == 1 && strstr(result.err, "the trace has no allocations"),
	   "groups of allocations are refused where there are none");
	verb_result_deinit(&result);
	result = REPORT(dir, "-a", "leaks", "-i", "hits");
	ok(result.status == 1 && strstr(result.err, "'hits' is not of the kmem tracer"),
	   "and for an instance that has none");
	verb_result_deinit(&result);
	result = REPORT(dir, "--type", "pages");
	ok(result.status == 1 && strstr(result.err, "--type chooses allocations"),
	   "so is a choice of allocations");
	verb_result_deinit(&result);
	result = REPORT(dir, "-a", "events", "--filter", "nonsense == 5");
	ok(result.status == 2 && strstr(result.err, "nonsense"),
	   "and a filter on a field that no event has");
	verb_result_deinit(&result);
	result = verb_run(cmd_diff, (const char *const[]){"diff", dir, dir, NULL});
	ok(result.status == 1 && strstr(result.err, "the trace has no allocations"),
	   "allocations of traces without any are not compared");
	verb_result_deinit(&result);
}

int main(void)
{
	struct scratch dir = scratch_make();

	make_trace(dir.path);
	test_default(dir.path);
	test_instance(dir.path);
	test_refusals(dir.path);
	test_check(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
