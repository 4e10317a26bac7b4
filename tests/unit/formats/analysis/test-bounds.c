/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a trace with losses comes to has its error bound, whatever shows it. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/calls-make.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"

enum { LOST = 3, OBJECT = 64 };

static struct scratch dir;
static char heap[96], calls[96], whole[96], fewer[96], more[96], out[96];

#define COUNTS "up to 7 events are missing from "
#define SUMS "live sums are at most 7 objects too high, by at most "

/* What verbs print, on either output. */
static void test_texts(void)
{
	const struct {
		int (*verb)(int, char **);
		const char *argv[8];
		const char *expected;
	} rows[] = {
		{cmd_report, {"report", "--analysis", "events", heap}, COUNTS "the counts\n"},
		{cmd_report,
		 {"report", "--history", "0xffff888000001000", heap},
		 COUNTS "the history\n"},
		{cmd_report, {"report", heap}, SUMS},
		{cmd_leaks, {"leaks", heap}, SUMS},
		{cmd_timeline, {"timeline", heap}, SUMS},
		{cmd_replay, {"replay", "--allocator", "slub-6.1", heap}, SUMS},
		{cmd_diff, {"diff", heap, heap}, SUMS},
		{cmd_report,
		 {"report", "--analysis", "functions", calls},
		 "up to 3 events are missing from the calls\n"},
		{cmd_report,
		 {"report", "--analysis", "syscalls", calls},
		 "up to 3 events are missing from the calls\n"},
		{cmd_convert,
		 {"convert", heap, "--to", "folded", "-o", out, "--force"},
		 COUNTS "the sums\n"},
		{cmd_convert,
		 {"convert", heap, "--to", "perfetto", "-o", out, "--force"},
		 COUNTS "the sums\n"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result = verb_run(rows[i].verb, rows[i].argv);

		if (!ok(strstr(result.out, rows[i].expected) ||
				strstr(result.err, rows[i].expected),
			"sonde %s %s says: %s", rows[i].argv[0],
			rows[i].argv[2] ? rows[i].argv[2] : "", rows[i].expected))
			tap_diag("%s%s", result.out, result.err);
		verb_result_deinit(&result);
	}
}

/* Each JSON document has the same. */
static void test_json(const char *trace, const char *analysis, const char *bound)
{
	const char *const argv[] = {"report", "--json", "--analysis", analysis, trace, NULL};
	struct verb_result result = verb_run(cmd_report, argv);

	if (!ok(strstr(result.out, bound), "the JSON of %s has %s", analysis, bound))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
}

/* Files for other tools, as far as they have room for a text. */
static void test_files(void)
{
	static char text[1 << 18];
	size_t size;
	char *svg;
	gzFile file;
	int n;

	export_make_convert(heap, "flamegraph", out, "--force");
	svg = file_get(dir.path, "out", &size);
	ok(svg && strstr(svg, "; up to 7 events are missing</text>"),
	   "a flame graph says how many events are missing");
	free(svg);
	export_make_convert(heap, "pprof", out, "--force");
	file = gzopen(out, "r");
	n = file ? gzread(file, text, sizeof(text)) : 0;
	ok(n > 0 && memmem(text, (size_t)n, "up to 7 events are missing", 26),
	   "a profile has a comment with it");
	gzclose(file);
}

/* Of a trace that is cut off it is known how many events it had, if its sidecar is there; one
 * without losses needs no bound. */
static void test_others(void)
{
	static const char *const sidecars[] = {".sonde.json", ".sonde.json.copy"};
	const char *const argv[] = {"report", "--analysis", "functions", whole, NULL};
	struct verb_result result = verb_run(cmd_report, argv);
	size_t size;
	char *bytes;

	ok(!strstr(result.out, "Bound"), "a trace without losses has no bound");
	verb_result_deinit(&result);
	bytes = file_get(whole, "cpu0.graph", &size);
	file_put(whole, "cpu0.graph", bytes, size / 2);
	free(bytes);
	result = verb_run(cmd_report, argv);
	if (!ok(strstr(result.out, "Bound up to 19 events are missing from the calls\n"),
		"a file that is cut off lacks those that it had"))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
	for (size_t i = 0; i < sizeof(sidecars) / sizeof(sidecars[0]); i++) {
		bytes = file_get(whole, sidecars[i], &size);
		file_put(whole, sidecars[i], bytes, size - 9);
		free(bytes);
	}
	result = verb_run(cmd_report, argv);
	ok(strstr(result.out, "Bound it is unknown how many events are missing from the calls\n"),
	   "nothing bounds that if the sidecar and its copy are damaged");
	verb_result_deinit(&result);
}

/* --- differences ------------------------------------------------------------------------------ */

/* Objects of one call site, freed at once but the last ones. */
static void make_allocations(const char *path, unsigned int n, unsigned int live, uint64_t lost)
{
	const struct trace_info info = {.mode = "trap"};
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	for (unsigned int i = 0; i < n; i++) {
		const uint64_t ptr = 0xffff888000000000 + (uint64_t)i * OBJECT;
		const int64_t ns = INT64_C(1000000000) * i / n;
		const struct kmem_record alloc =
			make_alloc(KMEM_TYPE_KMALLOC, ptr, 0x1000, OBJECT, OBJECT, ns);
		const struct kmem_record release =
			make_free(KMEM_TYPE_KMALLOC, ptr, 0x1000, ns + 1);

		if (trace_writer_append(writer, 0, &alloc) ||
		    (i + live < n && trace_writer_append(writer, 0, &release)))
			abort();
	}
	trace_writer_add_overruns(writer, 0, 0, lost);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void differs(const char *a, const char *b, bool expected, const char *label)
{
	const char *const argv[] = {"diff", a, b, NULL};
	struct verb_result result = verb_run(cmd_diff, argv);

	if (!ok(strstr(result.out,
		       expected ? " 1 of 1 are significant" : " 0 of 1 are significant"),
		"%s", label))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

static void test_diff(void)
{
	char lossy[96];

	snprintf(fewer, sizeof(fewer), "%s/fewer", dir.path);
	snprintf(more, sizeof(more), "%s/more", dir.path);
	snprintf(lossy, sizeof(lossy), "%s/lossy", dir.path);
	make_allocations(fewer, 1000, 0, 0);
	make_allocations(more, 2000, 0, 0);
	make_allocations(lossy, 1000, 0, 1000);
	differs(fewer, more, true, "twice as many allocations are significant");
	differs(lossy, more, false, "they are not if as many may have been lost");
	snprintf(fewer, sizeof(fewer), "%s/none", dir.path);
	snprintf(more, sizeof(more), "%s/live", dir.path);
	snprintf(lossy, sizeof(lossy), "%s/lossy-live", dir.path);
	make_allocations(fewer, 1000, 500, 0);
	make_allocations(more, 1000, 600, 0);
	make_allocations(lossy, 1000, 600, 200);
	differs(fewer, more, true, "100 more live objects are significant");
	differs(fewer, lossy, false, "they are not if 200 frees may have been lost");
	snprintf(lossy, sizeof(lossy), "%s/lossy-fewer", dir.path);
	make_allocations(lossy, 1000, 500, 200);
	differs(lossy, more, false, "nor if 200 allocations may have been lost of the others");
	snprintf(lossy, sizeof(lossy), "%s/hardly-lossy", dir.path);
	make_allocations(lossy, 1000, 500, 20);
	differs(lossy, more, true, "they are if these were only 20");
}

/* What another instance has lost is not missing. */
static void test_instances(void)
{
	static const char *const names[] = {"one", "two"};
	static const uint64_t lost[] = {0, 3};
	const struct trace_info info = {.tool_version = "1"};
	struct trace_writer *writer;
	char trace[96];

	snprintf(trace, sizeof(trace), "%s/instances", dir.path);
	if (trace_writer_create(trace, 1, 0, &info, &writer, NULL))
		abort();
	for (int i = 0; i < 2; i++) {
		const struct kmem_record record =
			make_alloc(KMEM_TYPE_KMALLOC, 0x1000, 0x1000, OBJECT, OBJECT, i + 1);

		trace_put(writer, trace_add(writer, names[i], kmem_classes, KMEM_NR_CLASSES),
			  kmem_class_of(&record), i + 1, &record);
		trace_writer_add_overruns(writer, (unsigned int)i, 0, lost[i]);
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	for (int i = 0; i < 2; i++) {
		const char *const argv[] = {"report", "--instance", names[i], trace, NULL};
		const char *const json_argv[] = {"report", "--json", "--instance",
						 names[i], trace,    NULL};
		struct verb_result result = verb_run(cmd_report, argv);
		json_t *root = verb_json(cmd_report, json_argv);
		const json_t *bound = json_object_get(root, "bound");

		is_u64((uint64_t)json_integer_value(json_object_get(bound, "objects")), lost[i],
		       "the bound is of what the instance has lost");
		ok(json_is_null(json_object_get(bound, "bytes_too_low")) == (lost[i] > 0) &&
			   json_is_integer(json_object_get(bound, "bytes_too_high")),
		   "lost allocations have no known size");
		ok(!strstr(result.out, "Bound") == !lost[i] &&
			   !strstr(result.out, "none of these is of instance one") == !!i,
		   "so is the line");
		verb_result_deinit(&result);
		json_decref(root);
	}
}

int main(void)
{
	dir = scratch_make();
	snprintf(heap, sizeof(heap), "%s/heap", dir.path);
	snprintf(calls, sizeof(calls), "%s/calls", dir.path);
	snprintf(whole, sizeof(whole), "%s/whole", dir.path);
	snprintf(out, sizeof(out), "%s/out", dir.path);
	export_make(heap);
	calls_make(calls, LOST);
	calls_make(whole, 0);
	test_texts();
	test_json(heap, "events", "\"objects\": 7");
	test_json(calls, "functions", "\"objects\": 3");
	test_json(calls, "syscalls", "\"objects\": 3");
	test_files();
	test_others();
	test_diff();
	test_instances();
	scratch_remove(&dir);
	return tap_done();
}
