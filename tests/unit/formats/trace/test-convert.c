/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Traces from one format to the other and back, and the verbs on both. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { N = 5000, VCPUS = 2, OVERRUNS = 7 };

static const struct trace_info info = {
	.mode = "trap",
	.banner = "Linux version 6.1",
	.page_size = 4096,
	.started_realtime_ns = 1700000000000000000,
	.from_first_allocation = true,
	.gfp_names = {{0xcc0, "GFP_KERNEL"}},
	.nr_gfp_names = 1,
	.counters = {.v = {[COUNTER_PAUSES] = 1}},
};

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	(void)arg;
	if (address < 0xffffffff81000000)
		return -1;
	out->start = address & ~UINT64_C(0xff);
	out->size = 0x100;
	snprintf(out->name, sizeof(out->name), "function_%x", (unsigned int)out->start & 0xffffff);
	return 0;
}

static void write_source(const char *path)
{
	struct kmem_record *records = calloc(N, sizeof(*records));
	struct trace_writer *writer;
	unsigned int encoding = 0;
	char name[32];

	random_records(11, true, records, N);
	while (strcmp(trace_encoding_names[encoding], "kmemtrace"))
		encoding++;
	if (trace_writer_create(path, VCPUS, encoding, &info, &writer, NULL))
		abort();
	for (unsigned int i = 0; i < CTF_MAKE_CACHES; i++) {
		snprintf(name, sizeof(name), "cache-%u", i);
		trace_writer_cache_id(writer, name, i, i);
	}
	for (size_t i = 0; i < N; i++)
		trace_writer_append(writer, i % VCPUS, &records[i]);
	trace_writer_add_overruns(writer, 0, 1, OVERRUNS);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	free(records);
}

static void convert(const char *source, const char *format, const char *out)
{
	const char *const argv[] = {"convert", source, "--to", format, "-o", out, NULL};
	struct verb_result result = verb_run(cmd_convert, argv);

	is_u64((uint64_t)result.status, 0, "sonde convert exits with 0");
	is_str(result.out, "", "sonde convert prints nothing on standard output");
	if (!ok(strstr(result.err, "5,000 records in") &&
			strstr(result.err, "\nLost   7 records: not written") &&
			strstr(result.err, "\n       1 gap: tracing was switched off\n"),
		"sonde convert says how many records it wrote, what was lost, and why"))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
}

static void same_file(const char *a, const char *b, const char *name)
{
	size_t size_a = 0, size_b = 0;
	char *text_a = file_get(a, name, &size_a), *text_b = file_get(b, name, &size_b);

	ok(text_a && text_b && size_a == size_b && !memcmp(text_a, text_b, size_a),
	   "%s is the same after conversion to ctf and back", name);
	free(text_a);
	free(text_b);
}

/* The encodings differ in where in a file a record lies, and in having checksums. */
static void without_differences(char *text)
{
	char *checksums = strstr(text, "\"checksums\": ");

	if (checksums)
		memmove(checksums, strchr(checksums, '\n'), strlen(strchr(checksums, '\n')) + 1);
	while ((text = strstr(text, "\"offset\": "))) {
		text += strlen("\"offset\": ");
		memmove(text, text + strspn(text, "0123456789"),
			strlen(text + strspn(text, "0123456789")) + 1);
	}
}

static void same_output(int (*verb)(int, char **), const char *name, const char *a, const char *b)
{
	const char *argv[] = {name, "--json", a, NULL};
	struct verb_result first = verb_run(verb, argv), second;

	argv[2] = b;
	second = verb_run(verb, argv);
	without_differences(first.out);
	without_differences(second.out);
	ok(strlen(first.out) > 1000, "sonde %s --json prints something", name);
	is_str(second.out, first.out, "report and check print the same of both encodings");
	ok(first.status == second.status, "report and check exit with the same status");
	verb_result_deinit(&first);
	verb_result_deinit(&second);
}

static void test_there_and_back(void)
{
	static const char *const files[] = {"cpu0",        "cpu1",           "caches0",   "caches1",
					    "abi_version", "total_overruns", "sonde.json"};
	struct scratch dir = scratch_make();
	char source[128], ctf[128], back[128];

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(ctf, sizeof(ctf), "%s/ctf", dir.path);
	snprintf(back, sizeof(back), "%s/back", dir.path);
	write_source(source);
	convert(source, "ctf", ctf);
	convert(ctf, "kmemtrace", back);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		same_file(source, back, files[i]);
	same_output(cmd_report, "report", source, ctf);
	same_output(cmd_check, "check", source, ctf);
	scratch_remove(&dir);
}

static void write_mixed(const char *path)
{
	const struct trace_instance calls = {
		.name = "calls", .spec = "function", .classes = function_class(0), .nr_classes = 1};
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 1, 2, 3, 4, 5);
	const struct function_event call = {.ip = 6};
	struct event_batch batch = {0};
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &calls, NULL) < 0 ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL) < 0 ||
	    event_batch_put(&batch, trace_writer_sink(writer, 0, 0), 0, 4, &call) ||
	    event_batch_put(&batch, trace_writer_sink(writer, 1, 0), kmem_class_of(&record), 5,
			    &record))
		abort();
	event_batch_end(&batch);
	trace_writer_add_overruns(writer, 0, 0, 3);
	trace_writer_add_overruns(writer, 1, 0, 2);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* `instance` may be NULL. */
static void convert_mixed(const char *source, const char *format, const char *out,
			  const char *instance, int status, const char *said)
{
	const char *const argv[] = {
		"convert", source, "--to", format, "-o", out, instance ? "--instance" : NULL,
		instance,  NULL};
	struct verb_result result = verb_run(cmd_convert, argv);
	char expected[400];

	snprintf(expected, sizeof(expected), "sonde convert: %s", said);
	is_u64((uint64_t)result.status, (uint64_t)status, "the exit status");
	if (!ok(strstr(result.err, expected) == result.err, "it says: %s", said))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
}

static void prints_events(const char *dir, const char *text)
{
	struct verb_result result =
		verb_run(cmd_events, (const char *const[]){"events", dir, NULL});

	is_str(result.out, text, "the copy has the events of the instance alone");
	verb_result_deinit(&result);
}

/* Of a trace that the format has no room for nothing is made; of one instance it is. */
static void test_one_instance(void)
{
	struct scratch dir = scratch_make();
	char source[128], out[128], calls[128];

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(out, sizeof(out), "%s/out", dir.path);
	snprintf(calls, sizeof(calls), "%s/calls", dir.path);
	write_mixed(source);
	convert_mixed(source, "kmemtrace", out, NULL, 1,
		      "calls: the format kmemtrace has no events but those of kmem; use ctf, or "
		      "choose an instance, as with --instance=kmem\n");
	ok(access(out, F_OK), "no directory was made");
	convert_mixed(source, "kmemtrace", out, "calls", 1,
		      "calls: the format kmemtrace has no events but those of kmem; use ctf\n");
	convert_mixed(source, "kmemtrace", out, "kmen", 2,
		      "--instance takes calls or kmem, not 'kmen'\n");
	ok(access(out, F_OK), "no directory was made for any of these");
	convert_mixed(source, "kmemtrace", out, "kmem", 0, "1 record in ");
	prints_events(out, "[000]     0.000000005 kmem:kmalloc: call_site=0x2 ptr=0x1 bytes_req=3 "
			   "bytes_alloc=4 cache=- gfp_flags=GFP_KERNEL node=-1\n");
	convert_mixed(source, "ctf", calls, "calls", 0, "1 record in ");
	prints_events(calls, "[000]     0.000000004 calls function:function: ip=0x6\n");
	scratch_remove(&dir);
}

/* An instance of kmem that has other classes, too: no recorder of ours writes that. */
static void test_foreign_class(void)
{
	struct scratch dir = scratch_make();
	const struct event_class classes[] = {kmem_classes_of(EVENT_TASK_PID)[KMEM_CLASS_KMALLOC],
					      *function_class(0)};
	const struct trace_instance odd = {
		.name = "kmem", .spec = "kmem", .classes = classes, .nr_classes = 2};
	const uint64_t ip = 6;
	struct trace_writer *writer;
	struct event_batch batch = {0};
	char source[128], out[128];

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(out, sizeof(out), "%s/out", dir.path);
	if (trace_writer_create(source, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &odd, NULL) < 0 ||
	    event_batch_put(&batch, trace_writer_sink(writer, 0, 0), 1, 5, &ip))
		abort();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	convert_mixed(source, "kmemtrace", out, NULL, 1,
		      "kmem: the format kmemtrace has no events but those of kmem; use ctf\n");
	ok(access(out, F_OK), "no directory was made");
	scratch_remove(&dir);
}

/* A field that the format has no room for is left out, and named. */
static void test_left_out(void)
{
	struct scratch dir = scratch_make();
	const struct trace_instance tasks = {
		.name = "kmem",
		.spec = "kmem:pid,stack",
		.classes = kmem_classes_of(EVENT_TASK_PID | EVENT_TASK_STACK),
		.nr_classes = KMEM_NR_CLASSES};
	struct kmem_stack_record event = {
		.call = {.record = make_alloc(KMEM_TYPE_KMALLOC, 1, 2, 3, 4, 5),
			 .task = {.pid = 7}}};
	struct trace_writer *writer;
	struct event_batch batch = {0};
	char source[128], out[128], said[300];

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(out, sizeof(out), "%s/out", dir.path);
	if (trace_writer_create(source, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &tasks, NULL) < 0 ||
	    event_batch_put(&batch, trace_writer_sink(writer, 0, 0), KMEM_CLASS_KMALLOC, 5, &event))
		abort();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	snprintf(said, sizeof(said),
		 "1 record in %s\nsonde convert: left out, as the format has no room for it: pid, "
		 "stack\n",
		 out);
	convert_mixed(source, "kmemtrace", out, NULL, 0, said);
	prints_events(out, "[000]     0.000000005 kmem:kmalloc: call_site=0x2 ptr=0x1 bytes_req=3 "
			   "bytes_alloc=4 cache=- gfp_flags=GFP_KERNEL node=-1\n");
	scratch_remove(&dir);
}

/* What is left of a trace whose recorder died becomes one that every reader takes. */
static void test_cut(void)
{
	struct scratch dir = scratch_make();
	char source[128], ctf[128], whole[128], path[160];
	struct verb_result result;

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(ctf, sizeof(ctf), "%s/ctf", dir.path);
	snprintf(whole, sizeof(whole), "%s/whole", dir.path);
	write_source(source);
	convert(source, "ctf", ctf);
	snprintf(path, sizeof(path), "%s/cpu0", ctf);
	if (truncate(path, 20000))
		abort();
	result = verb_run(cmd_convert,
			  (const char *const[]){"convert", ctf, "-t", "ctf", "-o", whole, NULL});
	is_u64((uint64_t)result.status, 0, "a trace that was cut off is converted");
	ok(strstr(result.err, "\n       cpu0: ends within a record: the last "),
	   "sonde convert says that the last records are missing");
	verb_result_deinit(&result);
	result = verb_run(cmd_check, (const char *const[]){"check", "--json", whole, NULL});
	ok(strstr(result.out, "\"complete\": false"), "the copy of a cut trace is not complete");
	ok(strstr(result.out, "\"cut\": []"), "the copy of a cut trace has no file that is cut");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

/* As copying without hidden files leaves it. */
static void test_without_sidecar(void)
{
	struct scratch dir = scratch_make();
	static const char *const hidden[] = {".sonde.json", ".sonde.json.copy", ".sonde.metadata"};
	char source[128], ctf[128], path[160];
	struct verb_result result;

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(ctf, sizeof(ctf), "%s/ctf", dir.path);
	write_source(source);
	convert(source, "ctf", ctf);
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", ctf, hidden[i]);
		if (unlink(path))
			abort();
	}
	result = verb_run(cmd_report, (const char *const[]){"report", ctf, NULL});
	is_u64((uint64_t)result.status, 0, "a trace without its sidecar is read");
	ok(strstr(result.out, ".sonde.json is missing: copy hidden files"),
	   "the report says that the hidden sidecar is missing");
	ok(strstr(result.out, "7 records: not written"), "the streams say what was lost");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

static void refuses(const char *what, int status, const char *text, const char *const *argv)
{
	struct verb_result result = verb_run(cmd_convert, argv);

	if (!ok(result.status == status && strstr(result.err, text), "%s", what))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
}

static void test_refusals(void)
{
	struct scratch dir = scratch_make();
	char source[128], out[128];

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(out, sizeof(out), "%s/out", dir.path);
	write_source(source);
	refuses("an output directory that is not empty is refused", 1, "not empty",
		(const char *const[]){"convert", source, "-t", "ctf", "-o", source, NULL});
	refuses("an unknown format is refused", 2, "did you mean 'ctf'?",
		(const char *const[]){"convert", source, "-t", "cft", "-o", out, NULL});
	refuses("a command line without a format is refused", 2, "FORMAT: ctf, kmemtrace",
		(const char *const[]){"convert", source, "-o", out, NULL});
	refuses("a command line without an output is refused", 2, "-o OUT",
		(const char *const[]){"convert", source, "-t", "ctf", NULL});
	refuses("a directory that is not there is refused", 1, "No such file",
		(const char *const[]){"convert", "/none", "-t", "ctf", "-o", out, NULL});
	ok(access(out, F_OK) < 0, "a refused conversion creates nothing");
	scratch_remove(&dir);
}

/* A copy that could not be written to its end does not look like that of a recorder. */
static void test_interrupted(void)
{
	struct scratch dir = scratch_make();
	char source[96], copy[96];
	struct verb_result result;
	struct rlimit old, limit;

	snprintf(source, sizeof(source), "%s/source", dir.path);
	snprintf(copy, sizeof(copy), "%s/copy", dir.path);
	write_source(source);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	limit = old;
	limit.rlim_cur = 20000; /* fits the sidecar, and not the records */
	setrlimit(RLIMIT_FSIZE, &limit);
	result = verb_run(cmd_convert, (const char *const[]){"convert", source, "--to", "ctf", "-o",
							     copy, NULL});
	setrlimit(RLIMIT_FSIZE, &old);
	ok(result.status && strstr(result.err, "cannot write"),
	   "sonde convert says that it could not write: %s", result.err);
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

/* As SIGKILL leaves it. */
static void test_killed(void)
{
	struct trace_info killed = info;
	struct scratch dir = scratch_make();
	struct trace_writer *writer;
	struct verb_result result;

	snprintf(killed.writer, sizeof(killed.writer), "convert");
	if (trace_writer_create(dir.path, 1, 0, &killed, &writer, NULL))
		abort();
	result = verb_run(cmd_check, (const char *const[]){"check", dir.path, NULL});
	ok(strstr(result.out, "sonde convert is writing this trace"),
	   "a copy that is being written is told as that");
	verb_result_deinit(&result);
	trace_writer_destroy(writer);
	result = verb_run(cmd_check, (const char *const[]){"check", dir.path, NULL});
	ok(strstr(result.out, "sonde convert did not end in order"),
	   "of a part of a copy, it is sonde convert that did not end in order");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

int main(void)
{
	test_there_and_back();
	test_one_instance();
	test_left_out();
	test_foreign_class();
	test_cut();
	test_without_sidecar();
	test_refusals();
	test_interrupted();
	test_killed();
	return tap_done();
}
