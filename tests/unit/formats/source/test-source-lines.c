/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Places in the source, as the verbs show them: out of debug information that is made up here. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/trace/reader.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"
#include "tests/lib/trace-make.h"

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,\"build_id\":\"abcd\","
	"\"vcpus\":[{}],\"symbols\":[{\"name\":\"first\",\"start\":\"0x1000\",\"size\":4096},"
	"{\"name\":\"second\",\"start\":\"0x2000\",\"size\":4096},"
	"{\"name\":\"third [mod]\",\"start\":\"0x3000\",\"size\":256,\"build_id\":\"0a1B\"}]}";

enum { CALL = 0x1010, BEGIN = 0x2000 };

struct made_up {
	struct source_lines base;
	bool is_empty;
};

static unsigned int nr_open;
static char opened[64];
static bool first_is_empty; /* of those that are open at a time */

/* first() calls inner() in line 7, which is inlined from line 21 on; second() has a place at its
 * begin only. */
static size_t find(struct source_lines *lines, const struct source_code *code,
		   struct source_frame *out)
{
	const uint64_t address = code->address;

	if (((struct made_up *)lines)->is_empty)
		return 0;
	if (address == BEGIN) {
		out[0] = (struct source_frame){"second", "mm/b.c", 9};
		return 1;
	}
	if (!strcmp(code->function, "third [mod]") && code->start == 0x3000 && code->size == 256 &&
	    address == 0x300f && !strcmp(code->build_id, "0a1b")) {
		out[0] = (struct source_frame){"third", "drivers/c.c", 5};
		return 1;
	}
	if (address != CALL - 1)
		return 0;
	out[0] = (struct source_frame){"first", "mm/a.c", 7};
	out[1] = (struct source_frame){"inner", "include/a.h", 21};
	return 2;
}

static void destroy(struct source_lines *lines)
{
	nr_open--;
	free(lines);
}

static int open_lines(const char *path, const struct trace_info *info, struct source_lines **out,
		      struct error *err)
{
	struct made_up *made;

	if (strcmp(info->build_id, "abcd") != 0)
		abort();
	snprintf(opened, sizeof(opened), "%s", path ? path : "(searched)");
	if (!strcmp(opened, "missing"))
		return error_set(err, ENOENT, "no debug information");
	made = malloc(sizeof(*made));
	*made = (struct made_up){{find, destroy}, first_is_empty && !nr_open};
	nr_open++;
	*out = &made->base;
	return 0;
}

static void put_trace(const char *dir)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000001000, CALL, 60, 64, 1000),
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000002000, BEGIN, 60, 64, 2000),
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000003000, 0x9000, 60, 64, 3000),
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000004000, 0x3010, 60, 64, 3500),
		make_free(KMEM_TYPE_KMALLOC, 0xffff888000003000, CALL, 4000)};

	stream_put(dir, 0, records, sizeof(records) / sizeof(records[0]));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static struct verb_result run(int (*verb)(int, char **), const char *const *argv)
{
	struct verb_result result = verb_run(verb, argv);

	if (result.status || nr_open)
		tap_diag("status %d, %u open: %s", result.status, nr_open, result.err);
	return result;
}

static void shows(int (*verb)(int, char **), const char *const *argv, const char *text,
		  const char *label)
{
	struct verb_result result = run(verb, argv);

	if (!ok(!result.status && !nr_open && strstr(result.out, text), "%s", label))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
}

static void test_text(const char *dir)
{
	static const char chain[] = "mm/a.c:7 > inner include/a.h:21";
	struct verb_result plain = run(cmd_report, (const char *[]){"report", dir, NULL});

	ok(!strstr(plain.out, "SOURCE") && !*opened, "unasked, no debug information is opened");
	verb_result_deinit(&plain);
	shows(cmd_report, (const char *[]){"report", "--lines", dir, NULL}, chain,
	      "report: a call that returns to an address is at the byte before, in what is "
	      "inlined");
	is_str(opened, "(searched)", "--lines searches for the file");
	shows(cmd_report, (const char *[]){"report", "--debug-file", "vmlinux", dir, NULL},
	      "mm/b.c:9", "an address that begins a function is its own place");
	is_str(opened, "vmlinux", "--debug-file names it");
	shows(cmd_report, (const char *[]){"report", "--lines", dir, NULL}, "drivers/c.c:5",
	      "of a module's function, its place, name and build id are known");
	shows(cmd_report, (const char *[]){"report", "--lines", "--by", "callsite,node", dir, NULL},
	      chain, "report: combined groups have places");
	shows(cmd_leaks, (const char *[]){"leaks", "-v", "--lines", dir, NULL}, chain,
	      "leaks shows places");
	shows(cmd_timeline, (const char *[]){"timeline", "--lines", dir, NULL}, chain,
	      "timeline shows places");
	shows(cmd_report,
	      (const char *[]){"report", "--history", "ffff888000001000", "--lines", dir, NULL},
	      "first+0x10/0x1000 (mm/a.c:7 > inner include/a.h:21)", "a history shows places");
	shows(cmd_diff,
	      (const char *[]){"diff", "-j", "--lines", "--time-b", "0.0000015,", dir, NULL},
	      "\"source\": \"mm/b.c:9\"", "diff has places");
	first_is_empty = true;
	shows(cmd_diff,
	      (const char *[]){"diff", "-j", "--lines", "--time-b", "0.0000015,", dir, dir, NULL},
	      "\"source\": \"mm/b.c:9\"", "also those that only B has");
	first_is_empty = false;
	shows(cmd_events, (const char *[]){"events", "--lines", dir, NULL},
	      "call_site=first+0x10/0x1000 (mm/a.c:7 > inner include/a.h:21) ptr=",
	      "events have them behind the symbol");
	shows(cmd_events,
	      (const char *[]){"events", "--lines", "-f", "call_site == \"first+0x10\"", dir, NULL},
	      "call_site=first+0x10/0x1000 (mm/a.c:7", "filters see symbols only");
}

static json_t *json_of(int (*verb)(int, char **), const char *const *argv)
{
	struct verb_result result = run(verb, argv);
	json_t *root = json_loads(result.out, JSON_DISABLE_EOF_CHECK, NULL);

	verb_result_deinit(&result);
	return root;
}

static void test_json(const char *dir)
{
	json_t *root = json_of(cmd_report, (const char *[]){"report", "-j", "--lines", dir, NULL});
	json_t *groups = json_object_get(root, "call_sites"), *frame, *source, *group;
	size_t i, n = 0;

	json_array_foreach(groups, i, group)
	{
		source = json_object_get(group, "source");
		n += source != NULL;
		if (json_array_size(source) != 2)
			continue;
		frame = json_array_get(source, 1);
		is_str(json_string_value(json_object_get(frame, "function")), "inner",
		       "JSON has the function");
		is_str(json_string_value(json_object_get(frame, "file")), "include/a.h",
		       "JSON has the file");
		is_u64((uint64_t)json_integer_value(json_object_get(frame, "line")), 21,
		       "JSON has the line");
	}
	is_u64(n, 3, "a call site that is unknown has no source");
	json_decref(root);
	shows(cmd_events, (const char *[]){"events", "-j", "--lines", dir, NULL},
	      "\"call_site_symbol\":\"first+0x10/0x1000\",\"call_site_source\":\"mm/a.c:7 > inner "
	      "include/a.h:21\",\"ptr\"",
	      "events as JSON have both");
}

static void test_exports(const char *dir)
{
	struct scratch exports = scratch_make();
	char out[128], *text;
	struct verb_result result;
	size_t size;

	snprintf(out, sizeof(out), "%s/folded", exports.path);
	result = run(cmd_convert, (const char *[]){"convert", "--to", "folded", "--lines", "-o",
						   out, dir, NULL});
	text = file_get(exports.path, "folded", &size);
	ok(text && strstr(text, "kmem:kmalloc;first;inner_[i] 1\n"),
	   "inlined functions are frames of folded stacks");
	free(text);
	verb_result_deinit(&result);
	snprintf(out, sizeof(out), "%s/pprof", exports.path);
	result = run(cmd_convert,
		     (const char *[]){"convert", "--to", "pprof", "--lines", "-o", out, dir, NULL});
	verb_result_deinit(&result);
	if (tool_exists("protoc") && !tool_run(&text, "zcat %s | protoc --decode_raw", out)) {
		ok(strstr(text, "4 {\n    1: 1\n    2: 21\n  }\n  4 {\n    1: 2\n    2: 7\n  }\n"),
		   "a location of pprof has the lines, the innermost first");
		ok(strstr(text, "6: \"include/a.h\"") && strstr(text, "6: \"inner\""),
		   "functions of pprof have names and files");
		free(text);
	}
	result = verb_run(cmd_convert, (const char *[]){"convert", "--to", "csv", "--lines", "-o",
							out, dir, NULL});
	ok(result.status == 2, "a format without places refuses them: %s", result.err);
	verb_result_deinit(&result);
	scratch_remove(&exports);
}

static void test_errors(const char *dir)
{
	struct verb_result result = verb_run(
		cmd_report, (const char *[]){"report", "--debug-file", "missing", dir, NULL});

	ok(result.status == 1 && strstr(result.err, "no debug information"),
	   "what cannot be opened is an error: %s", result.err);
	verb_result_deinit(&result);
	trace_reader_set_lines_source(NULL);
	result = verb_run(cmd_report, (const char *[]){"report", "--lines", dir, NULL});
	ok(result.status == 1, "without a reader of debug information there is an error: %s",
	   result.err);
	verb_result_deinit(&result);
}

int main(void)
{
	const struct source_frame unknown = {"", "", 0};
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	trace_reader_set_lines_source(open_lines);
	test_text(dir.path);
	test_json(dir.path);
	test_exports(dir.path);
	test_errors(dir.path);
	is_str(source_text(&unknown, 1).s, "?:0", "what is unknown is a question mark");
	scratch_remove(&dir);
	return tap_done();
}
