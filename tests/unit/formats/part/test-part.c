/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A part of a trace in each format. Events are those that sonde events prints with the same
 * options; live memory is that at the end of the chosen time, as in sonde report.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

enum { MAX_ARGS = 24 };

static struct scratch dir;
static char trace[128], small[128];

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	return path;
}

/* What the user chooses, NULL-terminated. */
struct choice {
	const char *words[8];
};

static struct verb_result run(int (*verb)(int, char **), const char *const *first,
			      const struct choice *choice)
{
	const char *argv[MAX_ARGS] = {NULL};
	size_t n = 0;

	while (*first)
		argv[n++] = *first++;
	for (size_t i = 0; choice && choice->words[i]; i++)
		argv[n++] = choice->words[i];
	return verb_run(verb, argv);
}

static struct verb_result convert(const char *source, const char *format, const char *name,
				  const struct choice *choice)
{
	return run(
		cmd_convert,
		(const char *const[]){"convert", source, "--to", format, "-o", path_of(name), NULL},
		choice);
}

/* Of a file that only this test reads. */
static char *export_of(const char *source, const char *format, const struct choice *choice)
{
	struct verb_result result = convert(source, format, "file", choice);
	size_t size;
	char *text = file_get(dir.path, "file", &size);

	if (!ok(!result.status && text, "a part is exported to %s", format))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	unlink(path_of("file"));
	return text ? text : strdup("");
}

static char *events_of(const char *source, const struct choice *choice)
{
	struct verb_result result =
		run(cmd_events, (const char *const[]){"events", "--json", source, NULL}, choice);

	free(result.err);
	return result.out;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* --- events ---------------------------------------------------------------------------------- */

static const struct choice choices[] = {
	{{"--time", "5.0005,45.002"}},
	{{"--time", ",5.001"}},
	{{"-i", "calls", "-i", "other"}},
	{{"-e", "kmalloc", "-e", "thing"}},
	{{"-f", "bytes_req > 10", "-f", "pid == 101"}},
	{{"-C", "1", "-i", "function", "--time", "45,"}},
};
enum { NR_CHOICES = sizeof(choices) / sizeof(choices[0]) };

static void test_events(void)
{
	for (size_t i = 0; i < NR_CHOICES; i++) {
		char *want = events_of(trace, &choices[i]), *csv;
		char *got = export_of(trace, "jsonl", &choices[i]);
		const size_t n = count_lines(want);

		ok(n && n < EXPORT_MAKE_EVENTS && !strcmp(got, want),
		   "%zu events of %s %s are those that sonde events prints", n, choices[i].words[0],
		   choices[i].words[1]);
		csv = export_of(trace, "csv", &choices[i]);
		is_u64(count_lines(csv), n + 1, "csv has as many rows");
		free(want);
		free(got);
		free(csv);
	}
}

static void test_columns(void)
{
	const struct choice choice = {{"-i", "calls"}};
	char *csv = export_of(trace, "csv", &choice);

	ok(!strncmp(csv, "ns,vcpu,instance,event,ip,ip_symbol,parent_ip,parent_ip_symbol\n", 63),
	   "csv has columns for what is exported only");
	free(csv);
}

static void test_copies(void)
{
	for (size_t i = 0; i < NR_CHOICES; i++) {
		char *want = events_of(trace, &choices[i]), *got, name[16];
		struct verb_result result;

		snprintf(name, sizeof(name), "copy%zu", i);
		result = convert(trace, "ctf", name, &choices[i]);
		ok(!result.status, "a part is copied to ctf");
		got = events_of(path_of(name), NULL);
		ok(!strcmp(got, want), "with the events that sonde events prints");
		verb_result_deinit(&result);
		free(want);
		free(got);
	}
}

/* A part is known for one by its sidecar. */
static void test_part_of_copy(void)
{
	struct verb_result result =
		run(cmd_report, (const char *const[]){"report", path_of("copy0"), NULL}, NULL);

	ok(strstr(result.out, "Part          from 5.000 s to before 45.002 s\n"),
	   "sonde report says which part of the trace it has");
	verb_result_deinit(&result);
	result = run(cmd_report, (const char *const[]){"report", path_of("copy2"), NULL}, NULL);
	ok(!strstr(result.out, "Part "), "of whole instances nothing is missing");
	verb_result_deinit(&result);
}

/* An instance that was added later has not seen the guest's first allocation. */
static void test_later_instance(void)
{
	static const struct trace_info info = {
		.mode = "exitless", .page_size = 4096, .from_first_allocation = true};
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 1, 0x2000, 8, 8, 5000);
	static const char *const names[] = {"first", "later"};
	const char *source = strdupa(path_of("two"));
	struct trace_writer *writer;

	if (trace_writer_create(source, 1, 0, &info, &writer, NULL))
		abort();
	for (int i = 0; i < 2; i++) {
		struct trace_instance about = kmem_instance;

		about.name = names[i];
		about.late = i > 0;
		trace_put(writer, trace_writer_add_instance(writer, &about, NULL),
			  KMEM_CLASS_KMALLOC, 5000, &record);
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	for (int i = 0; i < 2; i++) {
		const char *const argv[] = {"report", "-i", names[i], source, NULL};
		const struct choice choice = {{"-i", names[i]}};
		struct verb_result result = convert(source, "ctf", names[i], &choice);

		verb_result_deinit(&result);
		result = run(cmd_report, argv, NULL);
		ok(!!strstr(result.out, "from boot on") == !i,
		   "a report of instance %s says whether it is from boot on", names[i]);
		verb_result_deinit(&result);
		result = run(cmd_report, (const char *const[]){"report", path_of(names[i]), NULL},
			     NULL);
		ok(!!strstr(result.out, "from boot on") == !i, "so does one of its copy");
		verb_result_deinit(&result);
	}
}

/* Three instances, of which two have one name. */
static void put_courses(const char *path)
{
	static const struct trace_info info = {.page_size = 4096, .from_first_allocation = true};
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 1, 0x2000, 8, 8, 5000);
	struct trace_instance about = kmem_instance;
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL))
		abort();
	trace_put(writer, trace_writer_add_instance(writer, &about, NULL), KMEM_CLASS_KMALLOC, 5000,
		  &record);
	trace_writer_set_spec(writer, 0, "kmem:kmalloc", NULL);
	trace_writer_close_instance(writer, 0);
	about.classes = kmem_classes_of(EVENT_TASK_PID);
	about.late = true;
	trace_writer_add_instance(writer, &about, NULL);
	about.name = "gone";
	trace_writer_close_instance(writer,
				    (unsigned int)trace_writer_add_instance(writer, &about, NULL));
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void check_courses(const char *path, const char *what)
{
	static const struct trace_instance want[] = {
		{.spec = "kmem:kmalloc", .interrupted = true, .removed = true},
		{.spec = "kmem", .late = true},
		{.spec = "kmem", .late = true, .removed = true},
	};
	struct trace_reader *reader;
	size_t n, right = 0;
	const struct trace_instance *instances;

	if (trace_reader_open(path, &reader, NULL))
		abort();
	instances = trace_reader_instances(reader, &n);
	for (size_t i = 0; n == 3 && i < n; i++) {
		const struct sidecar *sidecar = trace_reader_sidecar(reader);

		right += !strcmp(sidecar_last_spec(sidecar, &instances[i]), want[i].spec) &&
			 sidecar_is_late(sidecar, &instances[i]) == want[i].late &&
			 sidecar_is_interrupted(sidecar, &instances[i]) == want[i].interrupted &&
			 sidecar_is_removed(sidecar, &instances[i]) == want[i].removed;
	}
	is_u64(right, 3, what);
	trace_reader_close(reader);
}

static void test_courses(void)
{
	const char *source = strdupa(path_of("courses"));
	struct verb_result result;

	put_courses(source);
	check_courses(source, "each instance is known by what it did, also two of one name");
	result = convert(source, "ctf", "course-copies", &(struct choice){{NULL}});
	verb_result_deinit(&result);
	check_courses(path_of("course-copies"), "so are those of a copy");
}

static void test_trace_dat(void)
{
	const struct choice choice = {{"-i", "calls"}};
	struct verb_result result;
	char *report;

	if (!tool_exists("trace-cmd")) {
		tap_skip("trace-cmd reads a part", "trace-cmd is not installed");
		return;
	}
	result = convert(trace, "trace.dat", "dat", &choice);
	verb_result_deinit(&result);
	tool_run(&report, "trace-cmd report -t '%s' 2>/dev/null | grep -c ip=", path_of("dat"));
	is_u64(strtoull(report, NULL, 10), EXPORT_MAKE_EVENTS / 4, "trace-cmd reads the part");
	free(report);
	tool_run(&report, "trace-cmd report --stat '%s' 2>/dev/null | grep -c other",
		 path_of("dat"));
	is_u64(strtoull(report, NULL, 10), 0, "the other instances are no part of it");
	free(report);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void put_small(void)
{
	static const char sidecar[] = "{\"version\":1,\"complete\":true,\"vcpus\":[{}],"
				      "\"started_ns\":500000000,"
				      "\"started_realtime_ns\":1700000000000000000,"
				      "\"symbols\":[{\"name\":\"free_reserved_area\","
				      "\"start\":\"0x5000\",\"size\":256}]}";
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 60, 64, 1000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x1010, 60, 64, 2000000000),
		make_free(KMEM_TYPE_PAGES, 0x8000, 0x5010, 3000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x300, 0x2010, 100, 128, 4000000000),
		make_free(KMEM_TYPE_KMALLOC, 0x200, 0x3010, 5000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x400, 0x1010, 60, 64, 6000000000),
		make_free(KMEM_TYPE_KMALLOC, 0x400, 0x3010, 7000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x500, 0x2010, 100, 128, 8000000000),
	};

	if (mkdir(small, 0700))
		abort();
	stream_put(small, 0, records, sizeof(records) / sizeof(records[0]));
	file_put(small, "sonde.json", sidecar, strlen(sidecar));
}

static uint64_t sum_of(char *text)
{
	uint64_t sum = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		sum += strtoull(strrchr(line, ' '), NULL, 10);
	free(text);
	return sum;
}

static void test_sums(void)
{
	static const struct {
		struct choice choice;
		uint64_t sum;
		const char *what;
	} rows[] = {
		{{{"-v", "live", "--time", "4,8"}}, 192, "what is older is live, too"},
		{{{"-v", "bytes", "--time", "4,8"}}, 192, "bytes are those of the time"},
		{{{"-v", "count", "--time", "4,8"}}, 4, "and so are counts"},
		{{{"-v", "live", "--since", "init"}}, 320, "live memory since init is all"},
		{{{"-v", "bytes", "--since", "init"}}, 320, "bytes since init"},
		{{{"-v", "count", "--since", "init"}}, 6, "events since init"},
		{{{"-v", "count", "--since", "init", "--time", "5.5,7.5"}}, 2, "a later time"},
		{{{"-v", "live", "-f", "bytes_req < 80"}}, 64, "objects are freed by any event"},
		{{{"-v", "live", "-e", "kmalloc"}}, 320, "also by those of another name"},
		{{{"-v", "bytes", "-f", "bytes_req < 80"}}, 192, "objects are those that match"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_u64(sum_of(export_of(small, "folded", &rows[i].choice)), rows[i].sum,
		       rows[i].what);
}

/* Who passes a profile of a part on passes on nothing of what is not in it. */
static void test_profile(void)
{
	static const struct {
		struct choice choice;
		unsigned int samples;
		const char *time;
	} rows[] = {{{{"-e", "kmalloc", "--time", "4,8"}}, 2, "time_nanos: 1700000003500000000\n"},
		    {{{"-f", "bytes_req == 60"}}, 1, "time_nanos: 1700000000500000000\n"},
		    {{{"--time", "90,"}}, 2, "time_nanos: 1700000000000000000\n"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result;
		unsigned int n = 0;
		char *text;

		if (!tool_exists("protoc")) {
			tap_skip("protoc reads the profile", "protoc is not installed");
			return;
		}
		result = convert(small, "pprof", "pprof", &rows[i].choice);
		verb_result_deinit(&result);
		tool_run(&text,
			 "gzip -dc '%s' | protoc --proto_path=tests/unit/formats/export/data "
			 "--decode=Profile profile.proto",
			 path_of("pprof"));
		for (const char *at = text; (at = strstr(at, "\nsample {")); at++)
			n++;
		is_u64(n, rows[i].samples, "a profile has the stacks of the part");
		ok(!strstr(text, "free"), "and no names of others");
		ok(strstr(text, rows[i].time), "its time is that of the part");
		free(text);
		unlink(path_of("pprof"));
	}
}

/* Objects whose slab is not in the trace are memory of their own. */
static void test_counters(void)
{
	const struct choice choice = {{"--time", "4,8", "-e", "kfree"}};
	struct verb_result result;
	char *text;

	if (!tool_exists("protoc")) {
		tap_skip("protoc reads the counters", "protoc is not installed");
		return;
	}
	result = convert(small, "perfetto", "perfetto", &choice);
	verb_result_deinit(&result);
	tool_run(&text,
		 "protoc --proto_path=tests/unit/formats/export/data --decode=Trace "
		 "perfetto.proto < '%s' | grep counter_value | sort -u | tr -d '\\n'",
		 path_of("perfetto"));
	is_str(text, "    counter_value: 192    counter_value: 256",
	       "counters of live memory begin with what is older, and follow all events");
	free(text);
	text = export_of(small, "jsonl", &choice);
	is_u64(count_lines(text), 2, "while only those are shown that were chosen");
	free(text);
}

/* --- what is said ---------------------------------------------------------------------------- */

static void says(const char *source, const char *format, const struct choice *choice, int status,
		 const char *text)
{
	struct verb_result result = convert(source, format, "said", choice);

	if (!ok(result.status == status && strstr(result.err, text), "it says: %s", text))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	unlink(path_of("said"));
}

static void test_messages(void)
{
	static const struct choice time = {{"--time", "4,8", "-e", "kmalloc"}},
				   none = {{"--time", "90,"}}, event = {{"-e", "kmaloc"}},
				   times = {{"-v", "time", "-e", "kmalloc"}},
				   instance = {{"-i", "call"}}, vcpu = {{"-C", "7"}},
				   filter = {{"-f", "bytes_req >"}}, since = {{"--since", "boot"}};

	says(small, "csv", &time, 0,
	     "a part of the trace, from 4.000 s to before 8.000 s, events kmalloc\n");
	says(small, "csv", &none, 0,
	     "no event is in the time that --time chooses: the trace has some from 1.000");
	says(trace, "csv", &(struct choice){{"-i", "calls"}}, 0,
	     "missing from the whole trace:\nLost   7 records: not written");
	says(trace, "csv", &event, 2, "did you mean 'kmalloc'?");
	says(trace, "csv", &instance, 2, "--instance takes");
	says(trace, "csv", &vcpu, 2, "--vcpu: the trace has none of these");
	says(trace, "csv", &filter, 2, "filter, character 12: a number");
	says(trace, "csv", &since, 2, "--since takes init, not 'boot'");
	says(trace, "csv", &(struct choice){{"--since", "init"}}, 1, "--since init: no pages");
	says(trace, "folded", &times, 2, "--value time is of whole calls");
}

/* What is missing makes sums wrong: those of the perfetto export are of allocations alone. */
static void test_what_sums_lack(void)
{
	static const struct {
		const char *format, *instance;
		bool has;
	} rows[] = {{"perfetto", "kmem", true},        {"perfetto", "calls", false},
		    {"folded", "calls", true},         {"parquet-sites", "kmem", true},
		    {"parquet-sites", "calls", false}, {"csv", "kmem", false}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct choice choice = {{"-i", rows[i].instance}};
		struct verb_result result = convert(trace, rows[i].format, "said", &choice);

		if (!ok(!result.status && !strstr(result.err, "up to 7 events are missing from "
							      "the sums") != rows[i].has,
			"%s of %s has %s that events are missing from", rows[i].format,
			rows[i].instance, rows[i].has ? "sums" : "no sums"))
			tap_diag("%s", result.err);
		verb_result_deinit(&result);
		unlink(path_of("said"));
	}
}

static void test_comments(void)
{
	const struct choice choice = {{"--time", "4,8", "-v", "live"}};
	char *svg = export_of(small, "flamegraph", &choice);

	ok(strstr(svg, "part: from 4.000 s to before 8.000 s"),
	   "a flame graph says which part of the trace it shows");
	free(svg);
}

/* A copy without the instance that lost events has none of its losses. */
static void test_losses_of_others(void)
{
	says(trace, "ctf", &(struct choice){{"-i", "calls"}}, 0,
	     "missing from the whole trace:\nLost   7 records: not written");
}

int main(void)
{
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(small, sizeof(small), "%s/small", dir.path);
	export_make(trace);
	put_small();
	test_events();
	test_columns();
	test_copies();
	test_part_of_copy();
	test_later_instance();
	test_courses();
	test_trace_dat();
	test_sums();
	test_profile();
	test_counters();
	test_messages();
	test_what_sums_lack();
	test_comments();
	test_losses_of_others();
	scratch_remove(&dir);
	return tap_done();
}
