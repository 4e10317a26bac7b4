/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --since init: the window begins with the last free of memory of the kernel's initialisation. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "formats/analysis/analysis.h"
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const char names[] = "\"vcpus\":[{}],\"symbols\":[{\"name\":\"free_reserved_area\","
			    "\"start\":\"0x5000\",\"size\":256}]}";

static void put_trace(const char *dir, size_t n, bool complete)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x100, 0x1010, 60, 64, 1000000000),
		make_free(KMEM_TYPE_PAGES, 0x8000, 0x5010, 2000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x200, 0x1010, 60, 64, 3000000000),
		make_free(KMEM_TYPE_PAGES, 0x9000, 0x5010, 4000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x300, 0x1010, 60, 64, 5000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x400, 0x1010, 60, 64, 6000000000),
	};
	char text[512];

	snprintf(text, sizeof(text), "{\"version\":1,\"complete\":%s,%s",
		 complete ? "true" : "false", names);
	stream_put(dir, 0, records, n);
	file_put(dir, "sonde.json", text, strlen(text));
}

static void test_window(const char *dir)
{
	static const struct {
		const char *time;
		json_int_t allocs;
		const char *what;
	} rows[] = {
		{",", 2, "--since init counts what happened since then"},
		{"5.5,", 1, "a later --time FROM goes before init"},
		{"1,", 2, "an earlier one does not"},
		{",5.5", 1, "--time TO ends the window"},
	};

	put_trace(dir, 6, true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *root = verb_json(
			cmd_report, (const char *const[]){"report", "--json", "--since", "init",
							  "--time", rows[i].time, dir, NULL});

		is_u64((uint64_t)json_integer_value(json_object_get(root, "alloc_events")),
		       (uint64_t)rows[i].allocs, rows[i].what);
		json_decref(root);
	}
}

static void test_no_init(const char *dir)
{
	struct verb_result result;

	put_trace(dir, 1, true);
	result =
		verb_run(cmd_report, (const char *const[]){"report", "--since", "init", dir, NULL});
	ok(result.status == 1 && strstr(result.err, "nothing says when init began"),
	   "a trace without that moment is refused");
	verb_result_deinit(&result);
}

static void begin(struct replay *replay, const char *dir, const struct replay_view *view)
{
	if (replay_open(replay, dir, view, NULL) || replay_select(replay, NULL))
		abort();
}

/* A trace that grows, and is locked as by its writer. */
static void test_follow(const char *dir)
{
	struct replay_view view = REPLAY_ALL;
	struct replay replay;
	int lock = open(dir, O_RDONLY | O_DIRECTORY);

	view.follow = view.since_init = true;
	if (lock < 0 || flock(lock, LOCK_EX))
		abort();
	put_trace(dir, 1, false);
	begin(&replay, dir, &view);
	is_u64((uint64_t)replay_follow(&replay, NULL, 0, NULL), 1, "the trace is followed");
	ok(!replay.records && !replay.init_moved, "before init nothing is in the window");

	put_trace(dir, 3, false);
	replay_follow(&replay, NULL, 0, NULL);
	ok(replay.init_moved, "a free of such memory moves the window");
	replay_close(&replay);

	begin(&replay, dir, &view);
	replay_follow(&replay, NULL, 0, NULL);
	is_u64(replay.records, 2, "a replay that begins then has what happened since");
	ok(!replay.init_moved, "and the window stays");
	put_trace(dir, 6, false);
	replay_follow(&replay, NULL, 0, NULL);
	ok(replay.init_moved, "until the next such free");
	replay_close(&replay);
	close(lock);
}

/* The output at the end of following, when the writer has ended. */
static void test_end(const char *dir)
{
	json_t *root;

	put_trace(dir, 6, true);
	root = verb_json(cmd_report, (const char *const[]){"report", "--json", "--follow",
							   "--since", "init", dir, NULL});
	is_u64((uint64_t)json_integer_value(json_object_get(root, "records")), 3,
	       "--follow ends with the window of the whole trace");
	json_decref(root);
}

/* A site that keeps 1 object of 20 each 20 ms, for 20 s: its verdict. `with_init`: init begins in
 * the middle; `until`: nothing stays that comes later, in s. */
static char *verdict_of_keeper(const char *dir, bool with_init, int64_t until, const char *filter)
{
	enum { KEPT = 1000, MS = 1000000 };
	struct kmem_record records[3 * KEPT + 1];
	const char *argv[] = {"leaks", "--json", dir, NULL, NULL, NULL};
	json_t *root;
	char text[512], *verdict;
	size_t n = 0;

	for (int64_t i = 0; i < KEPT; i++) {
		const uint64_t ptr = 0xffff888000000000 + (uint64_t)i * 128;
		const int64_t ns = i * 20 * MS;

		if (with_init && i == KEPT / 2)
			records[n++] = make_free(KMEM_TYPE_PAGES, 0x8000, 0x5010, ns);
		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, 0x1010, 60, 64, ns + 1);
		if (i % 20 || ns / 1000 / MS >= until)
			records[n++] = make_free(KMEM_TYPE_KMALLOC, ptr, 0x1010, ns + MS);
	}
	snprintf(text, sizeof(text), "{\"version\":1,\"complete\":true,%s", names);
	stream_put(dir, 0, records, n);
	file_put(dir, "sonde.json", text, strlen(text));
	if (filter) {
		argv[3] = "--filter";
		argv[4] = filter;
	}
	root = verb_json(cmd_leaks, argv);
	verdict = strdup(json_string_value(json_object_get(
		json_array_get(json_object_get(root, "call_sites"), 0), "verdict")));
	json_decref(root);
	return verdict;
}

static void test_leaks(const char *dir)
{
	static const struct {
		bool with_init;
		int64_t until;
		const char *filter, *verdict, *what;
	} rows[] = {
		{false, 20, NULL, "leak", "what stays of all times is a leak"},
		{true, 20, NULL, "leak", "also if it does since init"},
		{true, 10, NULL, "settled", "what stays of the boot alone is none"},
		{true, 14, NULL, "unclear", "nor is it if little more stays when init begins"},
		{true, 10, "bytes_req == 60", "settled", "nor is it of chosen allocations"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *verdict =
			verdict_of_keeper(dir, rows[i].with_init, rows[i].until, rows[i].filter);

		is_str(verdict, rows[i].verdict, rows[i].what);
		free(verdict);
	}
}

/* Behind test_leaks(): 20 s, of which 10 are since init; and those up to 15 s. */
static void test_short(const char *dir)
{
	static const char leaks_line[] =
		"\nTime          too short to tell what only grows: that takes 10 s from init on\n";
	static const char report_line[] =
		"\nGrows         too short to tell: that takes 10 s from init on\n";
	struct verb_result leaks =
		verb_run(cmd_leaks, (const char *const[]){"leaks", "--time", ",15", dir, NULL});
	struct verb_result report =
		verb_run(cmd_report, (const char *const[]){"report", "--time", ",15", dir, NULL});

	ok(strstr(leaks.out, leaks_line), "the boot does not count for what only grows");
	ok(strstr(report.out, report_line), "nor does it in the report");
	verb_result_deinit(&leaks);
	verb_result_deinit(&report);
}

static void put_names(const char *dir, const char *function)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "{\"version\":1,\"complete\":true,\"from_first_allocation\":true,"
		 "\"vcpus\":[{}],\"symbols\":[{\"name\":\"%s\",\"start\":\"0x5000\","
		 "\"size\":256}]}",
		 function);
	file_put(dir, "sonde.json", text, strlen(text));
}

/* What compilers and later kernels make of the function's name. */
static void test_names(const char *dir)
{
	static const struct {
		const char *function;
		const char *found; /* in the text; NULL: the trace is refused */
	} rows[] = {{"__free_reserved_area", "\nTrace         3 records"},
		    {"free_reserved_page", "\nTrace         3 records"},
		    {"free_reserved_area.part.0", "\nTrace         3 records"},
		    {"free_reserved_areas", NULL}};

	put_trace(dir, 6, true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result;

		put_names(dir, rows[i].function);
		result = verb_run(cmd_report,
				  (const char *const[]){"report", "--since", "init", dir, NULL});
		ok(rows[i].found ? strstr(result.out, rows[i].found) != NULL : result.status == 1,
		   "%s() says when init begins, or is another function", rows[i].function);
		verb_result_deinit(&result);
	}
}

/* Behind test_leaks(): the boot is in the trace, but no name says where it ends. */
static void test_unknown(const char *dir)
{
	struct verb_result report, leaks;

	put_names(dir, "free_other_area");
	report = verb_run(cmd_report, (const char *const[]){"report", "--time", "1,", dir, NULL});
	leaks = verb_run(cmd_leaks, (const char *const[]){"leaks", "--time", ",15", dir, NULL});
	ok(!strstr(report.out, "nothing grows") &&
		   strstr(leaks.out, "\nInit          nothing says when it began: "),
	   "without the end of the boot nothing is said not to grow");
	verb_result_deinit(&report);
	verb_result_deinit(&leaks);
}

int main(void)
{
	struct scratch dir = scratch_make();

	test_window(dir.path);
	test_no_init(dir.path);
	test_follow(dir.path);
	test_end(dir.path);
	test_leaks(dir.path);
	test_short(dir.path);
	test_unknown(dir.path);
	test_names(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
