/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rates, rows and parts are of the time that was chosen, in which the guest may have been idle. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE = 0x1010, BYTES = 64, OBJECTS = 10 };

#define SECOND INT64_C(1000000000)
#define HALF (SECOND / 2)

#define SIDECAR(more)                                                                            \
	"{\"version\":1,\"complete\":true,\"vcpus\":[{}]" more                                    \
	",\"symbols\":[{\"name\":\"f\",\"start\":\"0x1000\",\"size\":4096}]}"

/* From 0.5 to 20.5 s. */
static const char traced[] = SIDECAR(",\"started_ns\":500000000,\"tracing_ns\":20000000000");
static const char copied[] = SIDECAR(
	",\"started_ns\":500000000,\"tracing_ns\":20000000000,\"part\":\"from 1.000 s on\"");
static const char silent[] = SIDECAR("");

/* An object at each second from 1 to 10, for good. */
static void put_trace(const char *dir, const char *sidecar)
{
	struct kmem_record records[OBJECTS];

	for (unsigned int i = 0; i < OBJECTS; i++)
		records[i] = make_alloc(KMEM_TYPE_KMALLOC, 0x100 * (i + 1), SITE, BYTES, BYTES,
					(i + 1) * SECOND);
	stream_put(dir, 0, records, OBJECTS);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static int64_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool is_span(const json_t *root, int64_t begin_ns, int64_t end_ns)
{
	const bool is = number(root, "begin_ns") == begin_ns &&
			number(root, "end_ns") == end_ns &&
			number(root, "duration_ns") == end_ns - begin_ns;

	if (!is)
		tap_diag("from %lld to %lld ns", (long long)number(root, "begin_ns"),
			 (long long)number(root, "end_ns"));
	return is;
}

static void test_spans(const char *dir)
{
	static const struct {
		const char *sidecar, *time;
		int64_t begin_ns, end_ns;
		const char *what;
	} rows[] = {
		{traced, ",", SECOND, 10 * SECOND, "a whole trace goes from record to record"},
		{traced, "2.5,4.5", 2 * SECOND + HALF, 4 * SECOND + HALF,
		 "a part is the time that was chosen"},
		{traced, ",4.5", SECOND, 4 * SECOND + HALF,
		 "without a begin it begins with the first record"},
		{traced, "0.7,4.5", SECOND, 4 * SECOND + HALF,
		 "so does a part in which tracing begins"},
		{traced, "9.5,", 9 * SECOND + HALF, 20 * SECOND + HALF,
		 "without an end it goes on to where tracing ended"},
		{traced, "9.5,15", 9 * SECOND + HALF, 15 * SECOND,
		 "an end between the last record and that is the end"},
		{traced, "9.5,30", 9 * SECOND + HALF, 20 * SECOND + HALF, "one behind it is not"},
		{copied, "8.5,30", 8 * SECOND + HALF, 10 * SECOND,
		 "of a copied part, nothing says how long it was traced"},
		{silent, "8.5,", 8 * SECOND + HALF, 10 * SECOND,
		 "nor if the trace does not say it"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *root;

		put_trace(dir, rows[i].sidecar);
		root = verb_json(cmd_report, (const char *const[]){"report", "--json", "--time",
								   rows[i].time, dir, NULL});
		ok(is_span(root, rows[i].begin_ns, rows[i].end_ns), "%s", rows[i].what);
		json_decref(root);
	}
}

static void test_rates(const char *dir)
{
	json_t *root = verb_json(cmd_diff, (const char *const[]){"diff", "--json", "--time-a",
								 "2.5,3.5", "--time-b", "2.5,6.5",
								 dir, NULL});
	const json_t *pair = json_array_get(json_object_get(root, "changes"), 0);

	for (int i = 0; i < 2; i++) {
		const json_t *side = json_object_get(pair, i ? "b" : "a");
		const double rate = json_real_value(json_object_get(side, "allocs_per_second"));

		ok(rate > 0.99 && rate < 1.01, "%s has the rate of the chosen time",
		   i ? "a longer part" : "a part with one record");
	}
	json_decref(root);
}

/* Of events of a kind, whichever of them were chosen. */
static void test_event_rates(const char *dir)
{
	static const struct {
		const char *time, *rate, *what;
	} rows[] = {
		{",", "    10       1.1 ", "of a whole trace from event to event"},
		{"2.5,4.5", "     2       1.0 ", "of the time that was chosen"},
		{"9.5,", "     1       0.1 ", "also if there is one event in it"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result = verb_run(
			cmd_report, (const char *const[]){"report", "-a", "events", "--time",
							  rows[i].time, dir, NULL});

		if (!ok(strstr(result.out, rows[i].rate), "a rate is %s", rows[i].what))
			tap_diag("%s", result.out);
		verb_result_deinit(&result);
	}
}

static void test_rows(const char *dir)
{
	json_t *root = verb_json(cmd_timeline,
				 (const char *const[]){"timeline", "--json", "-n", "5", "--time",
						       "2.5,4.5", dir, NULL});
	const json_t *rows = json_object_get(root, "timeline");
	static const int64_t objects[] = {2, 3, 3, 4, 4};
	bool times = true, bytes = true;

	for (size_t i = 0; i < 5; i++) {
		const json_t *row = json_array_get(rows, i);

		const int64_t end = 2 * SECOND + HALF + 4 * SECOND / 10 * (int64_t)(i + 1);

		times &= llabs(number(row, "time_ns") - end) <= 2 * SECOND / 8192;
		bytes &= number(row, "live_bytes") == objects[i] * BYTES;
	}
	ok(times, "rows are equal parts of the chosen time, but for one in 8,192 of it");
	ok(bytes, "before its first record, what was live before is");
	json_decref(root);
}

static void test_peak(const char *dir)
{
	json_t *root = verb_json(cmd_timeline, (const char *const[]){"timeline", "--json", "--time",
								     "2.5,2.9", dir, NULL});

	is_u64((uint64_t)number(root, "peak_bytes"), 2 * BYTES,
	       "the peak of an idle time is what is live in it");
	json_decref(root);
}

static void test_births(const char *dir)
{
	json_t *root = verb_json(cmd_leaks, (const char *const[]){"leaks", "--json", "--time",
								  "1.5,17.5", dir, NULL});
	const json_t *site = json_array_get(json_object_get(root, "call_sites"), 0);
	const json_t *births = json_object_get(site, "births");
	bool as_wanted = json_array_size(births) == 16;

	for (size_t i = 0; i < json_array_size(births); i++)
		as_wanted &= json_integer_value(json_array_get(births, i)) == (i < 9);
	ok(as_wanted, "births are counted in parts of the chosen time");
	json_decref(root);
}

/* Nothing is chosen, but the trace may go on. */
static void test_follow(const char *dir)
{
	const struct analysis_options options = {.dir = dir};
	struct replay_view view = REPLAY_ALL;
	struct analysis *analysis;
	struct replay replay;
	struct error err;

	view.follow = true;
	if (replay_open(&replay, dir, &view, &err) || replay_select(&replay, &err) ||
	    analysis_create(analysis_find("overview"), &replay, &options, &analysis, &err) ||
	    replay_follow(&replay, &analysis, 1, &err) < 0)
		abort();
	ok(replay.span.begin_ns == SECOND && replay.span.end_ns == 20 * SECOND + HALF,
	   "a trace that is followed is of all that was traced so far");
	ok(replay.last_ns == 10 * SECOND, "the last record is the last record");
	analysis_destroy(analysis);
	replay_close(&replay);
}

int main(void)
{
	struct scratch dir = scratch_make();

	test_spans(dir.path);
	put_trace(dir.path, traced);
	test_rates(dir.path);
	test_event_rates(dir.path);
	test_rows(dir.path);
	test_peak(dir.path);
	test_births(dir.path);
	test_follow(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
