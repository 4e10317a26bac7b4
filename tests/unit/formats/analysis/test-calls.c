/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports of calls: how often a function or a system call was called, and for how long. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/event/graph.h"
#include "formats/event/kmem.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { OUTER = 0xa000, INNER = 0xb000, OPEN = 0xc000, FRAME = 0x8000, TASK = 7 };

static struct {
	struct trace_writer *writer;
	int graph, syscalls;
	int64_t ns;
} t;

static int add(const char *name, const struct event_class *classes, size_t n)
{
	const struct trace_instance instance = {
		.name = name,
		.spec = name,
		.classes = classes,
		.nr_classes = n,
		.prototypes = strcmp(name, "syscalls") ? NULL : "0xc000(int fd)\n"};
	int ret = trace_writer_add_instance(t.writer, &instance, NULL);

	if (ret < 0)
		abort();
	return ret;
}

static void begin_without(const char *dir)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};

	if (trace_writer_create(dir, 1, 0, &info, &t.writer, NULL))
		abort();
}

static void begin(const char *dir)
{
	begin_without(dir);
	t.graph = add("graph", graph_classes(0), GRAPH_NR_CLASSES);
	t.syscalls = add("syscalls", syscall_classes(0), SYSCALL_NR_CLASSES);
}

static void end(void)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};

	if (trace_writer_finish(t.writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(t.writer);
}

static void enter(uint64_t ip, uint64_t frame, int64_t ns)
{
	trace_put(t.writer, t.graph, GRAPH_ENTRY, ns,
		  &(struct graph_event){.call = {.ip = ip, .parent_ip = frame, .pid = TASK},
					.frame = frame});
}

static void leave(uint64_t frame, int64_t ns)
{
	trace_put(t.writer, t.graph, GRAPH_EXIT, ns, &(struct graph_event){.frame = frame});
}

static void syscall_of(uint64_t ip, int64_t ns, int64_t took_ns, int64_t result)
{
	const struct syscall_event event = {
		.call = {.call = {.ip = ip, .pid = TASK}, .frame = FRAME}};

	trace_put(t.writer, t.syscalls, SYSCALL_ENTER, ns, &event);
	if (took_ns)
		trace_put(t.writer, t.syscalls, SYSCALL_EXIT, ns + took_ns,
			  &(struct syscall_event){
				  .call = {.frame = FRAME, .result = (uint64_t)result}});
}

/* OUTER takes 10 us, 4 of these in two calls of INNER; and one of it never returns. Two are open at
 * the end. */
static void put_graph(void)
{
	enter(OUTER, FRAME, 1000);
	enter(INNER, FRAME - 64, 2000);
	leave(FRAME - 64, 3000);
	enter(INNER, FRAME - 64, 4000);
	leave(FRAME - 64, 7000);
	leave(FRAME, 11000);
	enter(OUTER, FRAME, 12000);
	enter(INNER, FRAME - 64, 13000);
	leave(FRAME - 64, 14000);
	enter(INNER, FRAME + 64, 15000);
	leave(FRAME + 64, 16000);
	enter(INNER, FRAME, 17000);
	enter(OPEN, FRAME - 64, 18000);
}

/* Of 100 calls one fails, and takes long; another one does not return. */
static void put_syscalls(void)
{
	for (int i = 0; i < 99; i++)
		syscall_of(OPEN, 20000 + i * 1000, 100, i);
	syscall_of(OPEN, 200000, 5000, -2);
	syscall_of(INNER, 300000, 0, 0);
}

static json_t *row_of(const json_t *root, const char *key, const char *name)
{
	json_t *array = json_object_get(root, key), *row;
	size_t i;

	json_array_foreach(array, i, row)
	{
		if (!strcmp(json_string_value(json_object_get(row, "name")), name))
			return row;
	}
	return NULL;
}

static json_t *report(const char *dir, const char *option, const char *value)
{
	const char *const argv[] = {"report", "--json", option, value, dir, NULL};

	return verb_json(cmd_report, argv);
}

static bool is_count(const json_t *row, const char *key, json_int_t expected)
{
	json_int_t value = json_integer_value(json_object_get(row, key));

	if (value != expected)
		tap_diag("%s is %lld, not %lld", key, (long long)value, (long long)expected);
	return value == expected;
}

static void test_functions(const char *dir)
{
	json_t *root = report(dir, "-a", "functions");
	json_t *outer = row_of(root, "functions", "0xa000");
	json_t *inner = row_of(root, "functions", "0xb000");
	json_t *open = row_of(root, "functions", "0xc000");

	ok(is_count(outer, "calls", 2) && is_count(outer, "unreturned", 1) &&
		   is_count(outer, "total_ns", 10000) && is_count(outer, "self_ns", 6000) &&
		   is_count(outer, "max_ns", 10000),
	   "a function's own time is without that of the calls in it");
	ok(is_count(inner, "calls", 5) && is_count(inner, "unreturned", 1) &&
		   is_count(inner, "total_ns", 6000) && is_count(inner, "self_ns", 6000) &&
		   is_count(inner, "mean_ns", 1500) && is_count(inner, "max_ns", 3000),
	   "calls in one that does not return are counted");
	ok(is_count(root, "open_calls", 2) && is_count(open, "calls", 1) &&
		   is_count(open, "unreturned", 1),
	   "calls that are open when the trace ends are counted");
	json_decref(root);
}

static void test_syscalls(const char *dir)
{
	json_t *root = report(dir, "--by", "syscall");
	json_t *open = row_of(root, "syscalls", "0xc000");
	json_t *other = row_of(root, "syscalls", "0xb000");

	ok(is_count(open, "calls", 100) && is_count(open, "errors", 1) &&
		   is_count(open, "unreturned", 0) && is_count(open, "total_ns", 14900) &&
		   is_count(open, "mean_ns", 149) && is_count(open, "max_ns", 5000),
	   "calls, errors and their time are counted");
	ok(is_count(open, "p50_ns", 103) && is_count(open, "p95_ns", 103) &&
		   is_count(open, "p99_ns", 103),
	   "percentiles are at most 1/16 too large");
	ok(is_count(other, "calls", 1) && is_count(other, "unreturned", 1) &&
		   is_count(other, "max_ns", 0),
	   "a call without a return has no time");
	ok(is_count(root, "open_syscalls", 1),
	   "system calls that are open when the trace ends are counted");
	json_decref(root);
}

static void test_text(const char *dir)
{
	const char *const syscalls[] = {"report", "--by", "syscall", "-n1", dir, NULL};
	const char *const functions[] = {"report", "-a", "functions", dir, NULL};
	struct verb_result result = verb_run(cmd_report, syscalls);

	ok(!result.status && strstr(result.out, "SYSCALL  CALLS  ERRORS  NO RETURN  ") &&
		   strstr(result.out, " us  0xc000 ") &&
		   strstr(result.out, "1 more; --top 0 shows all\n"
				      "Open  1 call had not returned when the trace ended\n"
				      "Lost  none\n"),
	   "system calls are a table, the longest first");
	verb_result_deinit(&result);
	result = verb_run(cmd_report, functions);
	ok(!result.status && strstr(result.out, "TOTAL  FUNCTION  CALLS  NO RETURN  ") &&
		   strstr(result.out, "10.0 us  0xa000 ") && strstr(result.out, " us  0xb000 ") &&
		   strstr(result.out, "Open  2 calls had not returned when the trace ended\n"
				      "Lost  none\n"),
	   "functions are, too");
	verb_result_deinit(&result);
}

/* The names of the rows, in their order. */
static void sorts(const char *dir, const char *analysis, const char *word, const char *wanted)
{
	const char *const argv[] = {"report", "--json", "-a", analysis, "--sort", word, dir, NULL};
	json_t *root = verb_json(cmd_report, argv), *row;
	char names[100] = "";
	size_t i;

	json_array_foreach(json_object_get(root, analysis), i, row)
	{
		strcat(names, i ? " " : "");
		strcat(names, json_string_value(json_object_get(row, "name")));
	}
	if (!ok(!strcmp(names, wanted), "%s by %s", analysis, word))
		tap_diag("%s", names);
	json_decref(root);
}

/* OUTER: 10 us in one of 2 calls, INNER 6 us in 4 of 5, OPEN none; of system calls OPEN has 100. */
static void test_sort(const char *dir)
{
	sorts(dir, "functions", "total", "0xa000 0xb000 0xc000");
	sorts(dir, "functions", "self", "0xb000 0xa000 0xc000");
	sorts(dir, "functions", "calls", "0xb000 0xa000 0xc000");
	sorts(dir, "functions", "mean", "0xa000 0xb000 0xc000");
	sorts(dir, "functions", "max", "0xa000 0xb000 0xc000");
	sorts(dir, "syscalls", "calls", "0xc000 0xb000");
}

/* Another mean is the greatest than that of the greatest total. */
static void test_sort_mean(void)
{
	struct scratch dir = scratch_make();

	begin(dir.path);
	for (int i = 0; i < 8; i++)
		syscall_of(OPEN, 1000 + i * 1000, 100 + (i == 7) * 50, 0);
	syscall_of(INNER, 20000, 140, 0);
	syscall_of(OUTER, 30000, 130, 0);
	syscall_of(OUTER, 40000, 130, 0);
	end();
	sorts(dir.path, "syscalls", "total", "0xc000 0xa000 0xb000");
	sorts(dir.path, "syscalls", "mean", "0xb000 0xa000 0xc000");
	sorts(dir.path, "syscalls", "max", "0xc000 0xb000 0xa000");
	scratch_remove(&dir);
}

static void refuses_sort(const char *const *argv, const char *wanted)
{
	struct verb_result result = verb_run(cmd_report, argv);

	if (!ok(result.status == 2 && strstr(result.err, wanted), "%s", wanted))
		tap_diag("%d: %s", result.status, result.err);
	verb_result_deinit(&result);
}

static void test_sort_words(const char *dir)
{
	refuses_sort((const char *[]){"report", "-a", "functions", "--sort", "hits", dir, NULL},
		     "--sort of this report takes total, self, calls, mean or max, not 'hits'");
	refuses_sort((const char *[]){"report", "--sort", "hits", dir, NULL},
		     "--sort of this report takes total, self, calls, mean or max, not 'hits'");
	refuses_sort((const char *[]){"report", "--by", "syscall", "--sort", "self", dir, NULL},
		     "--sort of this report takes total, calls, mean or max, not 'self'");
	refuses_sort((const char *[]){"report", "-a", "events", "--sort", "mean", dir, NULL},
		     "--sort of this report takes hits, bytes, ");
	refuses_sort((const char *[]){"report", "-a", "functions", "--sort", "men", dir, NULL},
		     "total, self, calls, mean or max, not 'men'; did you mean 'mean'?");
}

static void test_lines(const char *dir)
{
	const char *const argv[] = {"events", "--graph", "--json", dir, NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	ok(!result.status &&
		   strstr(result.out, "\"name\":\"0xa000\",\"caller\":\"0x8000\",\"depth\":0,"
				      "\"duration_ns\":10000,\"self_ns\":6000}\n") &&
		   strstr(result.out, "\"no_return\":\"unseen\"}\n"),
	   "sonde events prints each call as an object");
	verb_result_deinit(&result);
}

static void test_conversion(const char *dir)
{
	struct scratch scratch = scratch_make();
	char to[sizeof(scratch.path) + 8];
	const char *const convert[] = {"convert", dir, "--to", "ctf", "-o", to, NULL};
	const char *const events[] = {"events", "--syscalls", to, NULL};
	struct verb_result result;

	snprintf(to, sizeof(to), "%s/ctf", scratch.path);
	result = verb_run(cmd_convert, convert);
	verb_result_deinit(&result);
	result = verb_run(cmd_events, events);
	ok(!result.status && strstr(result.out, " 0xc000(fd=0) = 0 <"),
	   "a converted trace has the names of arguments");
	verb_result_deinit(&result);
	scratch_remove(&scratch);
}

static void test_lacking(void)
{
	struct scratch dir = scratch_make();
	const char *const functions[] = {"report", "-a", "functions", dir.path, NULL};
	const char *const syscalls[] = {"report", "--by", "syscall", "-i", "other", dir.path, NULL};
	struct verb_result result;

	begin_without(dir.path);
	add("other", function_class(0), 1);
	end();
	result = verb_run(cmd_report, functions);
	ok(result.status == 1 &&
		   strstr(result.err, "the trace has no calls of functions: it is of 'other'\n"),
	   "a report of calls refuses a trace without the graph tracer");
	verb_result_deinit(&result);
	result = verb_run(cmd_report, syscalls);
	ok(result.status == 1 &&
		   strstr(result.err, "--instance: 'other' is not of the syscalls tracer\n"),
	   "one of system calls refuses an instance of another tracer");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

/* The line "Calls" of a report of memory; NULL: none is expected. */
static void shows_calls(const char *const *argv, const char *wanted, const char *what)
{
	struct verb_result result = verb_run(cmd_report, argv);
	const char *line = strstr(result.out, "\nCalls         ");

	if (!ok(!result.status && !line == !wanted &&
			(!line || !strcmp(line + strlen("\nCalls         "), wanted)),
		"%s", what))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

static void test_hint(const char *name, const struct event_class *classes, size_t n,
		      const char *analysis)
{
	struct scratch scratch = scratch_make();
	const char *const dir = scratch.path;
	char wanted[200];

	begin_without(dir);
	add("kmem", kmem_classes_of(0), KMEM_NR_CLASSES);
	add(name, classes, n);
	end();
	snprintf(wanted, sizeof(wanted), "sonde report --analysis %s %s\n", analysis, dir);
	shows_calls((const char *[]){"report", "--by", "function", dir, NULL}, wanted,
		    "memory by function is not all that the trace has of functions");
	shows_calls((const char *[]){"report", "--by", "cache,function", "--type", "kmalloc", dir,
				     NULL},
		    wanted, "by function and cache, too, without what chose allocations");
	snprintf(wanted, sizeof(wanted), "sonde report --analysis %s --vcpu 0 --time 1,2.5 %s\n",
		 analysis, dir);
	shows_calls(
		(const char *[]){"report", "--by", "function", "-C0", "--time", "1,2.5", dir, NULL},
		wanted, "the time and vCPU are those that were chosen");
	shows_calls((const char *[]){"report", "--by", "callsite", dir, NULL}, NULL,
		    "by call site nobody looks for them");
	shows_calls((const char *[]){"report", "--by", "function", "-i", "kmem", dir, NULL}, NULL,
		    "nor who has named kmem");
	shows_calls((const char *[]){"report", "-a", "events", dir, NULL}, NULL,
		    "nor another report");
	scratch_remove(&scratch);
}

static void test_hints(void)
{
	test_hint("graph", graph_classes(0), GRAPH_NR_CLASSES, "functions");
	test_hint("function", function_class(0), 1, "events");
}

int main(void)
{
	struct scratch dir = scratch_make();

	begin(dir.path);
	put_graph();
	put_syscalls();
	end();
	test_functions(dir.path);
	test_syscalls(dir.path);
	test_text(dir.path);
	test_lines(dir.path);
	test_sort(dir.path);
	test_sort_mean();
	test_sort_words(dir.path);
	test_conversion(dir.path);
	test_lacking();
	test_hints();
	scratch_remove(&dir);
	return tap_done();
}
