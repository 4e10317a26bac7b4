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

int main(void)
{
	struct scratch dir = scratch_make();

	test_window(dir.path);
	test_no_init(dir.path);
	test_follow(dir.path);
	test_end(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
