/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whatever a verb makes of a damaged trace, it says that the trace is damaged: each output of each
 * verb, in turn, on a trace with wrong bytes in any of its files, and on one that is cut off.
 *
 * MUTATIONS, FIRST and CUTS are those of test-damage.c.
 */
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "tests/lib/calls-make.h"
#include "tests/lib/damage.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	RECORDS = 300, /* of the trace that is mutated */
	STRIDE = 1009, /* bytes between two cuts */
	MUTATIONS = 1000,
	PROGRESS = 50000, /* rounds, between two lines that say so */
	SECONDS = 60,     /* what takes longer hangs: the signal ends the test */
	MOST_FILES = 8,
	MOST_ARGS = 8,
};

/* --- traces ---------------------------------------------------------------------------------- */

enum which { ALLOCATIONS, CALLS, NR_TRACES };

struct file {
	char name[64], *bytes;
	size_t size;
};

struct trace {
	struct scratch dir;
	struct file files[MOST_FILES];
	size_t n;
};

static void load(struct trace *trace)
{
	struct dirent **entries;
	const int n = scandir(trace->dir.path, &entries, NULL, alphasort);

	if (n < 0 || n > MOST_FILES + 2)
		abort();
	for (int i = 0; i < n; i++) {
		struct file *file = &trace->files[trace->n];

		snprintf(file->name, sizeof(file->name), "%.63s", entries[i]->d_name);
		free(entries[i]);
		if (!strcmp(file->name, ".") || !strcmp(file->name, ".."))
			continue;
		file->bytes = file_get(trace->dir.path, file->name, &file->size);
		if (!file->bytes)
			abort();
		trace->n++;
	}
	free(entries);
}

static void make(struct trace *trace, enum which which, size_t nr_records)
{
	*trace = (struct trace){.dir = scratch_make()};
	if (which == CALLS)
		calls_make(trace->dir.path, 0);
	else
		damage_make_trace(trace->dir.path, nr_records);
	load(trace);
}

static void restore(const struct trace *trace, const struct file *file)
{
	file_put(trace->dir.path, file->name, file->bytes, file->size);
}

static void destroy(struct trace *trace)
{
	for (size_t i = 0; i < trace->n; i++)
		free(trace->files[i].bytes);
	scratch_remove(&trace->dir);
}

/* --- outputs --------------------------------------------------------------------------------- */

#define DIR "(the trace)"
#define WHOLE "(a whole one)"
#define OUT "(a new file)"

/* Where an output has its word on damage. */
enum where { TEXT, JSON, PAGE, STDERR };

struct output {
	int (*verb)(int argc, char **argv);
	enum which trace;
	enum where where;
	const char *argv[MOST_ARGS + 1];
};

static const struct output outputs[] = {
	{cmd_report, ALLOCATIONS, TEXT, {"report", DIR}},
	{cmd_report, ALLOCATIONS, TEXT, {"report", "-v", "--by", "cache", DIR}},
	{cmd_report, ALLOCATIONS, TEXT, {"report", "-a", "events", DIR}},
	{cmd_report, ALLOCATIONS, TEXT, {"report", "-a", "allocators,kmem", DIR}},
	{cmd_report, ALLOCATIONS, TEXT, {"report", "--history", "0xffff888000000000", DIR}},
	{cmd_report, ALLOCATIONS, JSON, {"report", "--json", DIR}},
	{cmd_report,
	 ALLOCATIONS,
	 JSON,
	 {"report", "--json", "-a", "leaks,history,timeline", "--history", "0xffff888000000000",
	  DIR}},
	{cmd_report, ALLOCATIONS, PAGE, {"report", "--html", OUT, DIR}},
	{cmd_leaks, ALLOCATIONS, TEXT, {"leaks", DIR}},
	{cmd_leaks, ALLOCATIONS, JSON, {"leaks", "--json", DIR}},
	{cmd_timeline, ALLOCATIONS, TEXT, {"timeline", DIR}},
	{cmd_timeline, ALLOCATIONS, JSON, {"timeline", "--json", DIR}},
	{cmd_replay, ALLOCATIONS, TEXT, {"replay", DIR}},
	{cmd_replay, ALLOCATIONS, TEXT, {"replay", "--allocator", "slob-5.10", DIR}},
	{cmd_replay, ALLOCATIONS, JSON, {"replay", "--allocator", "slab-5.10", "--json", DIR}},
	{cmd_diff, ALLOCATIONS, TEXT, {"diff", DIR, WHOLE}},
	{cmd_diff, ALLOCATIONS, TEXT, {"diff", WHOLE, DIR}},
	{cmd_diff, ALLOCATIONS, JSON, {"diff", "--json", DIR, WHOLE}},
	{cmd_diff, ALLOCATIONS, JSON, {"diff", "--json", WHOLE, DIR}},
	{cmd_diff, ALLOCATIONS, PAGE, {"diff", "--html", OUT, WHOLE, DIR}},
	{cmd_events, ALLOCATIONS, STDERR, {"events", DIR}},
	{cmd_events, ALLOCATIONS, STDERR, {"events", "--json", DIR}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "ctf", "-o", OUT}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "kmemtrace", "-o", OUT}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "trace.dat", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "perfetto", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "jsonl", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "csv", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "folded", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "flamegraph", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "pprof", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "parquet", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "rowbinary", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "parquet-sites", "-o", "-"}},
	{cmd_convert, ALLOCATIONS, STDERR, {"convert", DIR, "--to", "rowbinary-sites", "-o", "-"}},
	{cmd_report, CALLS, TEXT, {"report", DIR}},
	{cmd_report, CALLS, TEXT, {"report", "-a", "functions", DIR}},
	{cmd_report, CALLS, TEXT, {"report", "--by", "syscall", DIR}},
	{cmd_report, CALLS, TEXT, {"report", "-a", "functions,syscalls", DIR}},
	{cmd_report, CALLS, JSON, {"report", "-a", "syscalls,functions", "--json", DIR}},
	{cmd_report, CALLS, PAGE, {"report", "--html", OUT, DIR}},
	{cmd_events, CALLS, STDERR, {"events", "--graph", DIR}},
	{cmd_events, CALLS, STDERR, {"events", "--graph", "--json", DIR}},
	{cmd_events, CALLS, STDERR, {"events", "--graph", "-f", "duration >= 0", DIR}},
	{cmd_events, CALLS, STDERR, {"events", "--syscalls", DIR}},
	{cmd_convert, CALLS, STDERR, {"convert", DIR, "--to", "ctf", "-o", OUT}},
	{cmd_convert, CALLS, STDERR, {"convert", DIR, "--to", "folded", "-v", "time", "-o", "-"}},
	{cmd_convert, CALLS, STDERR, {"convert", DIR, "--to", "perfetto", "-o", "-"}},
};

enum { NR_OUTPUTS = sizeof(outputs) / sizeof(*outputs) };

static const char *argument_of(const char *text, const char *dir, const char *whole,
			       const char *out)
{
	if (text && !strcmp(text, DIR))
		return dir;
	if (text && !strcmp(text, WHOLE))
		return whole;
	return text && !strcmp(text, OUT) ? out : text;
}

static void print_words(const struct output *output)
{
	char line[256] = "";

	for (size_t i = 0, n = 0; output->argv[i] && n < sizeof(line); i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, " %s", output->argv[i]);
	tap_diag("sonde%s", line);
}

/* --- the word on damage ---------------------------------------------------------------------- */

static bool text_says(const char *text)
{
	static const char *const words[] = {
		"is damaged",        "are damaged",
		"passed over",       "is missing at",
		"ends within",       "record of impossible",
		"a wrong header",    "impossible event",
		"records are there", "did not end in",
		"Lost      unknown", "not valid JSON",
		"no symbols: .so",   "Files ",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static bool trace_json_says(const json_t *trace)
{
	return json_is_false(json_object_get(trace, "complete")) ||
	       json_is_false(json_object_get(trace, "losses_known")) ||
	       json_array_size(json_object_get(trace, "damaged")) ||
	       json_array_size(json_object_get(trace, "cut"));
}

/* Of a page for browsers it is in `trace` or `diff`; a comparison has it on each side. */
static bool json_says(const json_t *root)
{
	const json_t *diff = json_object_get(root, "diff");

	if (!diff)
		diff = root;
	return trace_json_says(root) || trace_json_says(json_object_get(root, "trace")) ||
	       trace_json_says(json_object_get(diff, "a")) ||
	       trace_json_says(json_object_get(diff, "b"));
}

static bool json_text_says(const char *text)
{
	json_t *root = text ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const bool says = root && json_says(root);

	json_decref(root);
	return says;
}

static bool page_says(const char *dir)
{
	static const char begin[] = "type=\"application/json\"";
	char *page = file_get(dir, "out", NULL), *data = page ? strstr(page, begin) : NULL;
	bool says;

	data = data ? strchr(data, '>') : NULL;
	says = data && json_text_says(data + 1);
	free(page);
	return says;
}

static bool says(const struct output *output, const struct verb_result *result, const char *dir)
{
	switch (output->where) {
	case TEXT:
		return text_says(result->out);
	case JSON:
		return json_text_says(result->out);
	case PAGE:
		return page_says(dir);
	default:
		return text_says(result->err);
	}
}

/* What a verb made of a trace. */
enum made { REFUSED, SAID, SILENT };

static enum made run(const struct output *output, const struct trace *trace, const char *whole)
{
	struct scratch scratch = scratch_make();
	const char *argv[MOST_ARGS + 1];
	struct verb_result result;
	enum made made;
	char out[128];

	snprintf(out, sizeof(out), "%s/out", scratch.path);
	for (size_t i = 0; i <= MOST_ARGS; i++)
		argv[i] = argument_of(output->argv[i], trace->dir.path, whole, out);
	alarm(SECONDS);
	result = verb_run(output->verb, argv);
	alarm(0);
	made = says(output, &result, scratch.path) ? SAID : SILENT;
	if (result.status)
		made = *result.err ? REFUSED : SILENT;
	verb_result_deinit(&result);
	scratch_remove(&scratch);
	return made;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void test_whole(const struct trace *traces)
{
	for (size_t i = 0; i < NR_OUTPUTS; i++) {
		const struct trace *trace = &traces[outputs[i].trace];

		if (!ok(run(&outputs[i], trace, traces[ALLOCATIONS].dir.path) == SILENT,
			"output %zu has no word on damage of a whole trace", i))
			print_words(&outputs[i]);
	}
}

static void test_mutations(const struct trace *traces, const char *whole)
{
	const uint64_t first = damage_setting("FIRST", 0),
		       rounds = damage_setting("MUTATIONS", MUTATIONS);
	uint64_t made[SILENT + 1] = {0};

	for (uint64_t round = first; round < first + rounds; round++) {
		const struct output *output = &outputs[round % NR_OUTPUTS];
		const struct trace *trace = &traces[output->trace];
		const struct file *file = &trace->files[round / NR_OUTPUTS % trace->n];
		enum made now;

		if (damage_put(trace->dir.path, file->name, file->bytes, file->size, round)) {
			now = run(output, trace, whole);
			made[now]++;
			if (now == SILENT) {
				tap_diag("round %" PRIu64 ": %s", round, file->name);
				print_words(output);
			}
		}
		restore(trace, file);
		if ((round + 1) % PROGRESS == 0)
			tap_diag("%" PRIu64 " rounds", round + 1);
	}
	is_u64(made[SILENT], 0, "no output of a damaged trace is without a word on the damage");
	ok(made[SAID] > rounds / 2, "and most of them have one: %" PRIu64 " of %" PRIu64,
	   made[SAID], rounds);
}

/* The stream's file. */
static const struct file *stream_of(const struct trace *trace)
{
	for (size_t i = 0; i < trace->n; i++)
		if (!strncmp(trace->files[i].name, "cpu0", 4))
			return &trace->files[i];
	abort();
}

static void test_cuts(const char *whole)
{
	const size_t stride = damage_setting("CUTS", 0) ? 1 : STRIDE;
	struct trace trace;
	const struct file *file;
	uint64_t silent = 0;
	size_t n = 0;

	make(&trace, ALLOCATIONS, DAMAGE_MOST_RECORDS);
	file = stream_of(&trace);
	for (size_t cut = 0; cut < file->size; cut += stride) {
		const struct output *output = &outputs[n++ % NR_OUTPUTS];

		if (output->trace != ALLOCATIONS)
			continue;
		file_put(trace.dir.path, file->name, file->bytes, cut);
		if (run(output, &trace, whole) == SILENT) {
			silent++;
			tap_diag("cut off at byte %zu", cut);
			print_words(output);
		}
	}
	is_u64(silent, 0, "none of a stream that is cut off, either");
	destroy(&trace);
}

int main(void)
{
	struct trace traces[NR_TRACES], whole;

	make(&traces[ALLOCATIONS], ALLOCATIONS, RECORDS);
	make(&traces[CALLS], CALLS, 0);
	make(&whole, ALLOCATIONS, RECORDS);
	test_whole(traces);
	test_mutations(traces, whole.dir.path);
	test_cuts(whole.dir.path);
	destroy(&whole);
	destroy(&traces[CALLS]);
	destroy(&traces[ALLOCATIONS]);
	return tap_done();
}
