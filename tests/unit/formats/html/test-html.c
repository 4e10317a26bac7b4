/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports for browsers: whatever the guest's names are, none becomes markup, and all the data are
 * there. What a browser makes of them is in tests/html. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/cmd.h"
#include "tests/lib/count.h"
#include "tests/lib/calls-make.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"

static struct scratch dir;
static char trace[128], page[160];

static int run(int (*verb)(int, char **), const char *const *argv, const char *complaint)
{
	struct verb_result result = verb_run(verb, argv);
	int status = result.status;

	if (complaint &&
	    !ok(strstr(result.err, complaint), "sonde %s says: %s", argv[0], complaint))
		tap_diag("%s", result.err);
	if (!complaint && !ok(!*result.err, "sonde %s has nothing to say", argv[0]))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
	return status;
}

/* The element with the data, as a browser finds it: up to the first end tag. To be freed. */
static char *data_of(const char *text)
{
	static const char begin[] = "<script type=\"application/json\" id=\"data\">";
	const char *at = strstr(text, begin);
	const char *end = at ? strstr(at, "</script") : NULL;

	return end ? strndup(at + strlen(begin), (size_t)(end - at) - strlen(begin)) : NULL;
}

/* Checks what holds of every page. Returns its data. */
static json_t *read_page(const char *name)
{
	size_t size;
	char *text = file_get(dir.path, name, &size), *inside = text ? data_of(text) : NULL;
	json_t *root = inside ? json_loads(inside, JSON_REJECT_DUPLICATES, NULL) : NULL;

	ok(root, "%s has data, which are JSON", name);
	ok(inside && !strpbrk(inside, "<>&"), "no name is markup in %s", name);
	is_u64(text ? count_in(text, "</script") : 0, 2, "there are two script elements");
	is_u64(text ? count_in(text, "http") : 0, 2,
	       "no address of a network is in it but the name of SVG; the other is http-equiv");
	ok(text && strstr(text, "default-src 'none'; style-src 'nonce-"),
	   "a policy lets nothing else run");
	free(inside);
	free(text);
	return root;
}

static size_t rows_of(const json_t *root, const char *table)
{
	return json_array_size(json_object_get(json_object_get(root, table), "rows"));
}

/* Whether a text in a value has these characters. */
static bool has_text(const json_t *value, const char *part)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(value))
		return strstr(json_string_value(value), part);
	json_array_foreach(value, i, item)
	{
		if (has_text(item, part))
			return true;
	}
	json_object_foreach((json_t *)value, key, item)
	{
		if (has_text(item, part))
			return true;
	}
	return false;
}

static json_int_t column_sum(const json_t *root, const char *table, const char *column)
{
	const json_t *part = json_object_get(root, table), *name, *row;
	json_int_t sum = 0;
	size_t at = 0, i;

	json_array_foreach(json_object_get(part, "columns"), i, name)
	{
		if (!strcmp(json_string_value(name), column))
			at = i;
	}
	json_array_foreach(json_object_get(part, "rows"), i, row)
	{
		sum += json_integer_value(json_array_get(row, at));
	}
	return sum;
}

static void test_report(void)
{
	json_int_t selected = 0, steps = 0;
	struct stat status;
	json_t *root;

	is_u64((uint64_t)run(cmd_report,
			     (const char *const[]){"report", "--html", page, trace, NULL}, NULL),
	       0, "a report is written");
	ok(!stat(page, &status) && (status.st_mode & 0777) == 0600, "only its owner can read it");
	root = read_page("page");
	ok(has_text(root, "</text>\"'"), "a hostile name is there as text");
	ok(rows_of(root, "sites") && rows_of(root, "caches"), "call sites and caches have rows");
	ok(rows_of(root, "events"), "events of other tracers have rows");
	steps = (json_int_t)json_array_size(
		json_object_get(json_object_get(root, "timeline"), "timeline"));
	is_u64((uint64_t)steps, 1024, "the timeline is fine enough to zoom in");
	if (json_unpack(root, "{s:{s:{s:I}}}", "overview", "memory", "selected_bytes", &selected))
		tap_diag("no selected_bytes");
	is_u64((uint64_t)column_sum(root, "sites", "live"), (uint64_t)selected,
	       "the live bytes of all call sites are those of the overview");
	is_u64((uint64_t)column_sum(root, "caches", "live"), (uint64_t)selected,
	       "so are those of all caches");
	json_decref(root);
}

static void test_diff(void)
{
	const char *const argv[] = {"diff", "--html", page, "--force", trace, trace, NULL};
	json_t *root;

	is_u64((uint64_t)run(cmd_diff, argv, NULL), 0, "a comparison replaces the file");
	root = read_page("page");
	ok(json_array_size(json_object_get(json_object_get(root, "diff"), "changes")),
	   "it has changes");
	json_decref(root);
}

/* --- calls ----------------------------------------------------------------------------------- */

static void check_sums(const json_t *root, const char *table, json_int_t errors)
{
	is_u64((uint64_t)column_sum(root, table, "calls"), 2 * CALLS_MADE, "all calls are there");
	is_u64((uint64_t)column_sum(root, table, "seen"), 2 * CALLS_MADE - 1,
	       "of which one has not returned");
	is_u64((uint64_t)column_sum(root, table, "total"),
	       (CALLS_MADE - 1) * 1000 + 10 * CALLS_MADE + CALLS_MADE * (CALLS_MADE - 1) / 2,
	       "and the time of those that have");
	is_u64((uint64_t)column_sum(root, table, "max"), 1000 + 10 + CALLS_MADE - 1,
	       "and their longest ones");
	if (errors)
		is_u64((uint64_t)column_sum(root, table, "errors"), (uint64_t)errors,
		       "and those that failed");
}

static void test_calls(void)
{
	const char *const argv[] = {"report", "--html", page, "--force", trace, NULL};
	json_t *root;

	snprintf(trace, sizeof(trace), "%s/calls", dir.path);
	calls_make(trace, 0);
	is_u64((uint64_t)run(cmd_report, argv, NULL), 0, "a trace of calls has a report");
	root = read_page("page");
	is_u64(rows_of(root, "calls"), 2, "it has the functions that were called");
	check_sums(root, "calls", 0);
	is_u64(rows_of(root, "syscalls"), 2, "and the system calls that were made");
	check_sums(root, "syscalls", 2);
	ok(has_text(json_object_get(root, "syscalls"), "read") &&
		   !has_text(json_object_get(root, "syscalls"), "sys_"),
	   "a system call has its name without that of its function");
	is_u64(rows_of(root, "sites"), 0, "it has no allocations");
	json_decref(root);
}

/* --- what a page is of ----------------------------------------------------------------------- */

/* A copy of a part, with an allocation in each of two instances of kmem. */
static void put_part(const char *path)
{
	static const struct trace_info info = {
		.mode = "exitless", .page_size = 4096, .part = "before 20 s", .ended = "it failed"};
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0x1000, 0x2000, 8, 8, 5000);
	struct trace_writer *writer;

	if (trace_writer_create(path, 1, 0, &info, &writer, NULL))
		abort();
	for (int i = 0; i < 2; i++)
		trace_put(writer,
			  trace_add(writer, i ? "two" : "one", kmem_classes,
				    kmem_instance.nr_classes),
			  KMEM_CLASS_KMALLOC, 5000, &record);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void check_origin(const json_t *of, const char *instance, const char *chosen)
{
	is_str(json_string_value(json_object_get(of, "part")), "before 20 s",
	       "the page says of which part the trace is");
	is_str(json_string_value(json_object_get(of, "ended")), "it failed", "and why it ended");
	is_u64((uint64_t)json_integer_value(json_object_get(of, "instances")), 2,
	       "and that it has two instances of kmem");
	is_str(json_string_value(json_object_get(of, "instance")), instance, "and which one it is");
	is_str(json_string_value(json_object_get(of, "chosen")), chosen, "and what was chosen");
}

static void test_origin(void)
{
	char of_part[128];
	json_t *root;

	snprintf(of_part, sizeof(of_part), "%s/part", dir.path);
	put_part(of_part);
	run(cmd_report, (const char *const[]){"report", "--html", page, "--force", of_part, NULL},
	    NULL);
	root = read_page("page");
	check_origin(json_object_get(root, "trace"), "one", "");
	json_decref(root);
	run(cmd_report,
	    (const char *const[]){"report", "--html", page, "--force", "-i", "two", "-e", "kmalloc",
				  "--type", "kmalloc", "--time", "0,1", of_part, NULL},
	    NULL);
	root = read_page("page");
	check_origin(json_object_get(root, "trace"), "two",
		     "type kmalloc, from 0.000 s to before 1.000 s, instance two, events kmalloc");
	json_decref(root);
	run(cmd_diff,
	    (const char *const[]){"diff", "--html", page, "--force", "-f", "bytes_req > 1", of_part,
				  of_part, NULL},
	    NULL);
	root = read_page("page");
	check_origin(json_object_get(json_object_get(root, "diff"), "b"), "one",
		     "filter bytes_req > 1");
	json_decref(root);
}

/* A page of a time without a record knows why it has none, and what is live at the end. */
static void check_time(const char *time, bool is_chosen, uint64_t live)
{
	const char *const argv[] = {"report", "--html", page,  "--force",
				    "--time", time,     trace, NULL};
	struct verb_result result = verb_run(cmd_report, argv);
	json_t *root = read_page("page");
	json_int_t bytes = -1;
	int chosen = -1;

	json_unpack(root, "{s:{s:b}, s:{s:{s:I}}}", "trace", "time_chosen", &chosen, "overview",
		    "memory", "live_bytes", &bytes);
	ok(chosen == is_chosen, "--time %s: the page knows whether that leaves out anything", time);
	is_u64((uint64_t)bytes, live, "and has what is live at its end");
	json_decref(root);
	verb_result_deinit(&result);
}

static void test_time(void)
{
	snprintf(trace, sizeof(trace), "%s/part", dir.path);
	check_time("1,", true, 8);
	check_time(",0.000001", true, 0);
	check_time(",", false, 8);
}

static void test_refusals(void)
{
	const struct {
		const char *argv[8];
		int status;
		const char *complaint;
	} rows[] = {
		{{"report", "--html", page, trace}, 1, "page"},
		{{"report", "--html", page, "--json", trace}, 2, "--html takes no --json"},
		{{"report", "--html", page, "--by", "cache", trace}, 2, "--html takes no --by"},
		{{"report", "--force", trace}, 2, "--force replaces the file of --html FILE"},
		{{"report", "--html", "/nowhere/page", trace}, 1, "/nowhere"},
		{{"report", "--html", page, "--force", "/nowhere/trace"}, 1, "/nowhere/trace"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_u64((uint64_t)run(cmd_report, rows[i].argv, rows[i].complaint),
		       (uint64_t)rows[i].status, "the exit status says what is wrong");
}

int main(void)
{
	dir = scratch_make();
	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	snprintf(page, sizeof(page), "%s/page", dir.path);
	export_make(trace);
	test_report();
	test_diff();
	test_refusals();
	test_calls();
	test_origin();
	test_time();
	scratch_remove(&dir);
	return tap_done();
}
