/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Folded stacks, flame graph and pprof's profile have the same sums, which are those of the events.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/heap/heap.h"
#include "tests/lib/count.h"
#include "tests/lib/event-lines.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

static struct scratch dir;
static char trace[128];

/* What the heap says, kept apart from the exports. */
static uint64_t live_bytes;
static struct heap *heap;

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	return path;
}

static char *convert(const char *format, const char *value, const char *name)
{
	size_t size;

	export_make_convert(trace, format, path_of(name), value);
	return file_get(dir.path, name, &size);
}

/* --- what is in the trace -------------------------------------------------------------------- */

static int ignore(void *arg, const struct heap_change *change)
{
	(void)arg;
	(void)change;
	return 0;
}

static void add_live(void *arg, uint64_t ptr, const struct heap_object *object)
{
	(void)arg;
	(void)ptr;
	if (!heap_is_backing(heap_origin(heap, object->origin)))
		live_bytes += object->bytes;
}

static void add_frame(char *line, const struct sidecar *sidecar, const struct event *event,
		      const char *field)
{
	const struct event_field *found = event_field_find(event->class, field);
	struct text name;

	if (!found)
		return;
	name = sidecar_function_text(sidecar, event_field_value(found, event->bytes));
	for (char *at = name.s; *at; at++)
		*at = *at == ';' ? ':' : *at;
	strcat(strcat(line, ";"), name.s);
}

static void read_trace(struct event_lines *stacks)
{
	struct trace_reader *reader;
	struct kmem_record record;
	struct event event;

	if (trace_reader_open(trace, &reader, NULL))
		abort();
	heap = heap_create(trace_reader_sidecar(reader), ignore, NULL);
	while (trace_reader_next(reader, &event, NULL) > 0) {
		const bool is_named = strcmp(event.instance->name, event.class->system);
		char line[2048];

		if (kmem_record_of(&event, &record) && heap_apply(heap, &record, event.vcpu, true))
			abort();
		snprintf(line, sizeof(line), "%s%s%s:%s", is_named ? event.instance->name : "",
			 is_named ? " " : "", event.class->system, event.class->name);
		add_frame(line, trace_reader_sidecar(reader), &event, "call_site");
		add_frame(line, trace_reader_sidecar(reader), &event, "parent_ip");
		add_frame(line, trace_reader_sidecar(reader), &event, "ip");
		event_lines_add(stacks, "%s", line);
	}
	heap_each(heap, add_live, NULL);
	heap_destroy(heap);
	trace_reader_close(reader);
}

/* --- folded ---------------------------------------------------------------------------------- */

static uint64_t sum_of(const char *text)
{
	uint64_t sum = 0;

	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		const char *end = strchr(line, '\n');

		while (end[-1] != ' ')
			end--;
		sum += strtoull(end, NULL, 10);
	}
	return sum;
}

/* A stack as often as it is counted. */
static void unfold(struct event_lines *lines, char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *space = strrchr(line, ' ');

		*space = '\0';
		for (uint64_t n = strtoull(space + 1, NULL, 10); n; n--)
			event_lines_add(lines, "%s", line);
	}
}

static void test_folded(struct event_lines *want)
{
	struct event_lines got = {0};
	char *text = convert("folded", NULL, "count"), *live = convert("folded", "-vlive", "live"),
	     *bytes = convert("folded", "-vbytes", "bytes");

	is_u64(sum_of(live), live_bytes, "live bytes are those of the heap, each once");
	ok(sum_of(bytes) > live_bytes, "more bytes were allocated than are live");
	ok(!strstr(live, "function:") && !strstr(bytes, "kfree") && !strstr(live, "other:"),
	   "only allocations have bytes");
	unfold(&got, text);
	event_lines_compare(&got, want, "a reader of folded stacks");
	free(text);
	free(live);
	free(bytes);
}

/* --- SVG ------------------------------------------------------------------------------------- */

static char *xpath(const char *file, const char *expression)
{
	char *text;

	tool_run(&text, "xmllint --xpath \"%s\" '%s'", expression, path_of(file));
	return text;
}

static void test_svg(void)
{
	char *svg = convert("flamegraph", NULL, "svg"),
	     *live = convert("flamegraph", "-vlive", "ls");
	char want[64], *got;

	if (!tool_exists("xmllint")) {
		tap_skip("xmllint reads the flame graph", "xmllint is not installed");
		return;
	}
	is_u64((uint64_t)tool_run(NULL, "xmllint --noout '%s'", path_of("svg")), 0,
	       "xmllint takes the flame graph for well-formed");
	is_u64((uint64_t)tool_run(NULL, "xmllint --noout '%s'", path_of("ls")), 0,
	       "that of live bytes, too");
	got = xpath("svg",
		    "string(//*[local-name()='title'][starts-with(., 'function:function:')])");
	snprintf(want, sizeof(want), "function:function: %d events, 25.00 %%\n",
		 EXPORT_MAKE_EVENTS / 4);
	is_str(got, want, "a frame has the sum of its stacks");
	free(got);
	got = xpath("svg", "count(//*[local-name()='title'][starts-with(., 'bad</text>')]) > 0");
	is_str(got, "true\n", "a name with markup is a text");
	free(got);
	ok(!strstr(svg, "<script") && !strstr(svg, "href"), "it has neither scripts nor links");
	ok(strstr(live, " bytes live</text>"), "it says what it shows");
	free(svg);
	free(live);
}

/* --- pprof ----------------------------------------------------------------------------------- */

/* The k-th value of all samples. */
static uint64_t sum_values(const char *text, unsigned int k)
{
	uint64_t sum = 0;

	while ((text = strstr(text, "\nsample {"))) {
		const char *value = text + 1;

		for (unsigned int i = 0; i <= k; i++)
			value = strstr(value, "value: ") + 7;
		sum += strtoull(value, NULL, 10);
		text += 9;
	}
	return sum;
}

/* Ids that samples or locations name are defined, from 1 to n without a gap. */
static bool ids_are_within(const char *text, const char *name, uint64_t n)
{
	while ((text = strstr(text, name))) {
		uint64_t id = strtoull(text += strlen(name), NULL, 10);

		if (!id || id > n)
			return false;
	}
	return true;
}

/* protoc prints the number of a field that it does not know. */
static bool has_numbered_field(const char *text)
{
	for (; (text = strchr(text, '\n')); text++) {
		const char *key = text + 1 + strspn(text + 1, " ");

		if (*key >= '0' && *key <= '9')
			return true;
	}
	return false;
}

static void test_pprof(void)
{
	char *text = convert("pprof", NULL, "pprof");

	free(text);
	if (!tool_exists("protoc")) {
		tap_skip("protoc reads the profile", "protoc is not installed");
		return;
	}
	is_u64((uint64_t)tool_run(
		       &text,
		       "gzip -dc '%s' | protoc --proto_path=tests/unit/formats/export/data "
		       "--decode=Profile profile.proto",
		       path_of("pprof")),
	       0, "gzip and protoc decode the profile with the published fields");
	is_u64(sum_values(text, 0), EXPORT_MAKE_EVENTS, "its samples have all events");
	is_u64(sum_values(text, 3), live_bytes, "and the live bytes");
	ok(strstr(text, "string_table: \"\"\n") && strstr(text, "string_table: \"inuse_space\"") &&
		   strstr(text, "string_table: \"0123456789abcdef\""),
	   "its strings begin with an empty one, and have types and build id");
	ok(ids_are_within(text, "location_id: ", count_in(text, "\nlocation {")) &&
		   ids_are_within(text, "function_id: ", count_in(text, "\nfunction {")),
	   "all locations and functions that are named are there");
	ok(!has_numbered_field(text), "there are no other fields");
	free(text);
}

/* --- options --------------------------------------------------------------------------------- */

static void refuses(const char *what, const char *format, const char *option, const char *text)
{
	const char *const argv[] = {"convert", trace,           "--to", format,
				    "-o",      path_of("none"), option, NULL};
	struct verb_result result = verb_run(cmd_convert, argv);

	ok(result.status && strstr(result.err, text), "%s is refused", what);
	verb_result_deinit(&result);
	ok(!file_get(dir.path, "none", &(size_t){0}), "and writes nothing");
}

static void test_options(void)
{
	refuses("a value of a format that has none", "csv", "-vlive",
		"--value: csv has all values, or none; leave it out");
	refuses("an unknown value", "folded", "-vpages", "-v takes count, bytes, live or time");
	refuses("a time of events that have none", "pprof", "-vtime",
		"--value time: the trace has no calls with their returns; use --value count");
}

/* Two instances that recorded the same: the sums have both, and say so; of one there is no word. */
static void test_instances(void)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};
	static const char *const formats[] = {"folded", "flamegraph", "pprof"};
	static const char words[] = "of 2 instances of kmem, which may have the same events";
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 1, 0x2000, 8, 8, 5000);
	struct trace_writer *writer;
	char two[128];

	snprintf(two, sizeof(two), "%s", path_of("two"));
	if (trace_writer_create(two, 1, 0, &info, &writer, NULL))
		abort();
	for (int i = 0; i < 2; i++)
		trace_put(writer,
			  trace_add(writer, i ? "b" : "a", kmem_classes, kmem_instance.nr_classes),
			  KMEM_CLASS_KMALLOC, 5000, &record);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
	for (size_t i = 0; i < 2 * sizeof(formats) / sizeof(formats[0]); i++) {
		const bool both = i % 2;
		const char *const format = formats[i / 2];
		const char *const argv[] = {"convert",           two, "--to", format, "-o", "-",
					    both ? NULL : "-ib", NULL};
		struct verb_result result = verb_run(cmd_convert, argv);
		const bool is_said = strstr(result.err, words);

		ok(!result.status && is_said == both, "%s says whether two instances are in it",
		   format);
		if (!strcmp(format, "flamegraph"))
			ok(!strstr(result.out, words) != both, "so does the image");
		verb_result_deinit(&result);
	}
}

int main(void)
{
	struct event_lines stacks = {0};

	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	export_make(trace);
	read_trace(&stacks);
	test_folded(&stacks);
	test_svg();
	test_pprof();
	test_options();
	test_instances();
	scratch_remove(&dir);
	return tap_done();
}
