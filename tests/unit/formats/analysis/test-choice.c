/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports take the choice of events that `sonde events` takes, with the same meaning. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { READ = 0xa000, WRITE = 0xb000, FRAME = 0x8000, MAX_ARGS = 16 };

static struct trace_writer *writer;

static void put_memory(int number)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x1000, 0x10, 8, 8, 1000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x2000, 0x10, 60, 64, 2000),
		make_alloc(KMEM_TYPE_CACHE, 0x3000, 0x20, 190, 192, 3000),
		make_alloc(KMEM_TYPE_PAGES, 0x4000, 0x30, 4096, 4096, 4000),
		make_free(KMEM_TYPE_KMALLOC, 0x1000, 0x10, 5000)};

	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		trace_put(writer, number, kmem_class_of(&records[i]), records[i].timestamp,
			  &records[i]);
}

static void put_call(int number, uint64_t ip, int64_t ns)
{
	const struct graph_event event = {.call = {.ip = ip, .pid = 1}, .frame = FRAME};

	trace_put(writer, number, GRAPH_ENTRY, ns, &event);
	trace_put(writer, number, GRAPH_EXIT, ns + 100, &event);
}

static void put_syscall(int number, uint64_t ip, int64_t ns, int64_t result)
{
	const struct syscall_event event = {.call = {.call = {.ip = ip, .pid = 1}, .frame = FRAME}};

	trace_put(writer, number, SYSCALL_ENTER, ns, &event);
	trace_put(writer, number, SYSCALL_EXIT, ns + 100,
		  &(struct syscall_event){.call = {.frame = FRAME, .result = (uint64_t)result}});
}

static void put_trace(const char *dir)
{
	static const struct trace_info info = {
		.mode = "exitless", .page_size = 4096, .from_first_allocation = true};
	int hits, graphs[2], syscalls;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	put_memory(trace_add(writer, "kmem", kmem_classes, kmem_instance.nr_classes));
	put_memory(trace_add(writer, "more", kmem_classes, kmem_instance.nr_classes));
	hits = trace_add(writer, "hits", function_class(0), 1);
	graphs[0] = trace_add(writer, "one", graph_classes(0), GRAPH_NR_CLASSES);
	graphs[1] = trace_add(writer, "two", graph_classes(0), GRAPH_NR_CLASSES);
	syscalls = trace_add(writer, "syscalls", syscall_classes(0), SYSCALL_NR_CLASSES);
	for (int i = 0; i < 3; i++)
		trace_put(writer, hits, 0, 6000 + i,
			  &(struct function_event){.ip = i ? WRITE : READ});
	for (int i = 0; i < 2; i++) {
		put_call(graphs[i], READ, 7000);
		put_call(graphs[i], WRITE, 8000);
	}
	put_syscall(syscalls, READ, 9000, 5);
	put_syscall(syscalls, WRITE, 9500, -2);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

typedef int verb_fn(int argc, char **argv);

static struct verb_result run(verb_fn *verb, const char *dir, const char *const *words)
{
	const char *argv[MAX_ARGS];
	size_t n = 0;

	for (; words[n]; n++)
		argv[n] = words[n];
	argv[n++] = dir;
	argv[n] = NULL;
	return verb_run(verb, argv);
}
#define RUN(verb, dir, ...) run(verb, dir, (const char *const[]){__VA_ARGS__, NULL})

/* An integer of what the verb prints as JSON; UINT64_MAX: there is none. */
static uint64_t number(struct verb_result result, const char *key)
{
	json_t *root = json_loads(result.out, 0, NULL);
	const json_t *value = json_object_get(root, key);
	uint64_t n = json_is_integer(value) ? (uint64_t)json_integer_value(value) : UINT64_MAX;

	json_decref(root);
	verb_result_deinit(&result);
	return n;
}

static void test_memory(const char *dir)
{
	static const struct {
		const char *words[10];
		uint64_t live;
	} rows[] = {
		{{"report", "--json"}, 3},
		{{"report", "--json", "-e", "kmalloc"}, 1},
		{{"report", "--json", "-e", "kmem:kmalloc", "-e", "mm_page_*"}, 2},
		{{"report", "--json", "-f", "bytes_req == 60", "-f", "bytes_req == 190"}, 2},
		{{"report", "--json", "-e", "kmalloc", "-f", "bytes_req > 100"}, 0},
		{{"report", "--json", "-f", "ip == 0xa000", "-f", "bytes_req == 60", "-a", "kmem"},
		 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		tap_diag("%s", rows[i].words[3] ? rows[i].words[3] : "all");
		is_u64(number(run(cmd_report, dir, rows[i].words), "live_objects"), rows[i].live,
		       "memory is that of the allocations that are chosen");
	}
}

/* Of all kinds. */
static uint64_t count_events(struct verb_result result)
{
	json_t *root = json_loads(result.out, 0, NULL), *kind;
	uint64_t n = 0;
	size_t i;

	json_array_foreach(json_object_get(root, "events"), i, kind) n +=
		(uint64_t)json_integer_value(json_object_get(kind, "events"));
	json_decref(root);
	verb_result_deinit(&result);
	return n;
}

/* Each line is an event. */
static uint64_t count_lines(struct verb_result result)
{
	uint64_t n = 0;

	for (const char *text = result.out; (text = strchr(text, '\n')); text++)
		n++;
	verb_result_deinit(&result);
	return n;
}

static void test_events(const char *dir)
{
	static const struct {
		const char *words[10];
		uint64_t events;
	} rows[] = {
		{{"-e", "function"}, 3},
		{{"-e", "function", "-e", "kmalloc"}, 7},
		{{"-f", "ip == 0xb000"}, 5},
		{{"-f", "ip == 0xb000", "-f", "bytes_req == 60"}, 7},
		{{"-i", "hits", "-i", "one"}, 7},
		{{"-i", "hits", "-i", "one", "-f", "ip == 0xa000"}, 2},
		{{"-C", "0"}, 25},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *report[MAX_ARGS] = {"report", "--json", "-a", "events"};
		const char *events[MAX_ARGS] = {"events"};

		memcpy(report + 4, rows[i].words, sizeof(rows[i].words));
		memcpy(events + 1, rows[i].words, sizeof(rows[i].words));
		tap_diag("%s", rows[i].words[1]);
		is_u64(count_lines(run(cmd_events, dir, events)), rows[i].events,
		       "sonde events prints what is chosen");
		is_u64(count_events(run(cmd_report, dir, report)), rows[i].events,
		       "a report counts the same events");
	}
}

static void test_what_is_shown(const char *dir)
{
	struct verb_result result = RUN(cmd_report, dir, "report", "-e", "function");

	ok(!result.status && strstr(result.out, "function:function\n") &&
		   !strstr(result.out, "graph:") && !strstr(result.out, "Memory"),
	   "if no allocations are chosen, events are counted");
	ok(strstr(result.out, "sonde events --event function "),
	   "the next command has the choice, too");
	verb_result_deinit(&result);
	result = RUN(cmd_report, dir, "report", "-a", "events", "-f", "ip == 0xa000", "-f",
		     "ip == 0xb000", "-C", "0");
	ok(strstr(result.out,
		  "sonde events --filter 'ip == 0xa000' --filter 'ip == 0xb000' --vcpu 0 "),
	   "with each filter");
	verb_result_deinit(&result);
}

static void test_calls(const char *dir)
{
	struct verb_result result =
		RUN(cmd_report, dir, "report", "-a", "functions", "-f", "ip == 0xb000");

	ok(!result.status && strstr(result.out, "0xb000") && !strstr(result.out, "0xa000") &&
		   strstr(result.out, "100 ns"),
	   "a filter chooses calls of functions, with their returns");
	verb_result_deinit(&result);
	result = RUN(cmd_report, dir, "report", "--by", "syscall", "-f", "ret < 0");
	ok(!result.status && strstr(result.out, "0xb000") && !strstr(result.out, "0xa000"),
	   "filters of system calls are on calls, as in sonde events --syscalls");
	verb_result_deinit(&result);
	result = RUN(cmd_report, dir, "report", "-a", "syscalls", "-f", "name ~ 0xa*", "-f",
		     "duration > 5000");
	ok(!result.status && strstr(result.out, "0xa000") && !strstr(result.out, "0xb000"),
	   "any of several");
	verb_result_deinit(&result);
}

static void test_verbs(const char *dir)
{
	struct verb_result result =
		RUN(cmd_leaks, dir, "leaks", "-v", "-e", "kmalloc", "-e", "mm_page_alloc");

	ok(strstr(result.out, "Call sites    2 with live memory"), "sonde leaks takes several");
	verb_result_deinit(&result);
	is_u64(number(RUN(cmd_timeline, dir, "timeline", "--json", "-e", "kmalloc"), "peak_bytes"),
	       72, "sonde timeline takes --event");
	result = RUN(cmd_diff, dir, "diff", "-e", "kmalloc", "-f", "bytes_req == 8", "-f",
		     "bytes_req == 60", dir);
	ok(!result.status && strstr(result.out, ", 64 B live\n"), "sonde diff takes them");
	verb_result_deinit(&result);
}

static void test_html(const char *dir)
{
	struct verb_result result = RUN(cmd_report, dir, "report", "--html", "-", "-i", "one", "-i",
					"syscalls", "-f", "ip == 0xb000");

	ok(!result.status && strstr(result.out, "[\"0xb000\",\"one\",1,1,100,100]") &&
		   strstr(result.out, "[\"0xb000\",\"syscalls\",1,1,100,100,1]") &&
		   !strstr(result.out, "0xa000"),
	   "a report for browsers has the calls whose entries are chosen");
	verb_result_deinit(&result);
}

static void test_refusals(const char *dir)
{
	static const struct {
		const char *words[10];
		int status;
		const char *err;
	} rows[] = {
		{{"report", "-e", "functoin"},
		 2,
		 "--event: no event has the name 'functoin'; did you mean 'function'?"},
		{{"report", "-f", "byts_req == 1"}, 2, "byts_req"},
		{{"report", "-i", "kmem", "-i", "tow"}, 2, "not 'tow'"},
		{{"report", "-a", "functions", "-i", "tow"}, 2, "not 'tow'"},
		{{"report", "-a", "syscalls", "-f", "bytes_req == 1"}, 2, "bytes_req"},
		{{"report", "-a", "syscalls", "-e", "enter"}, 2, "--event chooses events"},
		{{"report", "-i", "kmem", "-i", "more"},
		 1,
		 "memory is that of one instance: choose one, as with --instance=kmem\n"},
		{{"report", "-a", "functions", "-i", "one", "-i", "two"},
		 1,
		 "choose one, as with --instance=one\n"},
		{{"report", "-a", "events", "-t", "pages"}, 1, "--type chooses allocations"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result = run(cmd_report, dir, rows[i].words);

		if (!ok(result.status == rows[i].status && strstr(result.err, rows[i].err),
			"what is of no use is refused: %s", rows[i].err))
			tap_diag("%d %s", result.status, result.err);
		verb_result_deinit(&result);
	}
}

int main(void)
{
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	test_memory(dir.path);
	test_events(dir.path);
	test_what_is_shown(dir.path);
	test_calls(dir.path);
	test_verbs(dir.path);
	test_html(dir.path);
	test_refusals(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
