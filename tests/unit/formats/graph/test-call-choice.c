/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that filters choose by what only their ends say: durations, results. */
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { OUTER = 0xa000, INNER = 0xb000, FRAME = 0x8000, TASK = 7 };

static struct trace_writer *writer;

static void enter(uint64_t ip, uint64_t frame, int64_t ns)
{
	trace_put(writer, 0, GRAPH_ENTRY, ns,
		  &(struct graph_event){.call = {.ip = ip, .parent_ip = frame, .pid = TASK},
					.frame = frame});
}

static void leave(uint64_t frame, int64_t ns, int64_t result)
{
	trace_put(writer, 0, GRAPH_EXIT, ns,
		  &(struct graph_event){.frame = frame, .result = (uint64_t)result});
}

/* OUTER takes 10 us, INNER in it 3 us and then 1 us; another OUTER is open at the end. */
static void make(const char *dir)
{
	static const struct trace_info info = {.mode = "exitless", .page_size = 4096};
	const struct trace_instance instance = {.name = "graph",
						.spec = "graph:ret",
						.classes = graph_classes(GRAPH_RESULT),
						.nr_classes = GRAPH_NR_CLASSES};

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL) != 0)
		abort();
	enter(OUTER, FRAME, 1000);
	enter(INNER, FRAME - 64, 2000);
	leave(FRAME - 64, 5000, 0);
	enter(INNER, FRAME - 64, 6000);
	leave(FRAME - 64, 7000, (uint32_t)-11);
	leave(FRAME, 11000, 1);
	enter(OUTER, FRAME, 12000);
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* Behind the header. */
static void prints(const char *dir, const char *filter, const char *wanted)
{
	const char *const argv[] = {"events", "--graph", "--filter", filter, dir, NULL};
	struct verb_result result = verb_run(cmd_events, argv);
	const char *text = strstr(result.out, "task 7\n");

	text = text ? strchr(strchr(text, '\n') + 1, '\n') + 1 : result.out;
	if (!ok(!result.status && !strcmp(text, wanted), "%s", filter))
		tap_diag("%s\n%s\nnot\n%s", result.err, text, wanted);
	verb_result_deinit(&result);
}

static void test_text(const char *dir)
{
	prints(dir, "duration > 2000",
	       " 0)   3.000 us    |    0xb000(); /* = 0 */\n"
	       " 0)   10.000 us   |  0xa000(); /* = 1 */\n");
	prints(dir, "self == 6000", " 0)   10.000 us   |  0xa000(); /* = 1 */\n");
	prints(dir, "ret < 0", " 0)   1.000 us    |    0xb000(); /* = -11 */\n");
	prints(dir, "name == 0xa000 && depth == 0",
	       " 0)   10.000 us   |  0xa000(); /* = 1 */\n"
	       " 0)               |  0xa000(); /* no return seen */\n");
	prints(dir, "ret < 2 && name == 0xa000", " 0)   10.000 us   |  0xa000(); /* = 1 */\n");
	prints(dir, "duration < 20000 && name == 0xa000",
	       " 0)   10.000 us   |  0xa000(); /* = 1 */\n");
	prints(dir, "returned == 0 && name == 0xa000",
	       " 0)               |  0xa000(); /* no return seen */\n");
	prints(dir, "ip == 0xb000",
	       " 0)   3.000 us    |  0xb000(); /* = 0 */\n"
	       " 0)   1.000 us    |  0xb000(); /* = -11 */\n");
}

static void test_json(const char *dir)
{
	const char *const argv[] = {"events", "--graph", "--json", "-f", "duration >= 3000",
				    "-f",     "ret < 0", dir,      NULL};
	struct verb_result result = verb_run(cmd_events, argv);
	size_t lines = 0;

	for (const char *at = result.out; (at = strchr(at, '\n')); at++)
		lines++;
	ok(!result.status && lines == 3 && strstr(result.out, "\"duration_ns\":3000,") &&
		   strstr(result.out, "\"duration_ns\":10000,") &&
		   strstr(result.out, "\"ret\":-11"),
	   "of several filters a call has to pass any, as JSON, too");
	verb_result_deinit(&result);
}

static void test_nothing(const char *dir)
{
	static const char *const rows[][2] = {{"--graph", "name == nothing"},
					      {"--json", "duration > 20000"}};

	for (size_t i = 0; i < 2; i++) {
		const char *const argv[] = {"events",   "--graph", rows[i][0], "--filter",
					    rows[i][1], dir,       NULL};
		struct verb_result result = verb_run(cmd_events, argv);

		if (!ok(!result.status &&
				strstr(result.err,
				       "sonde events: no call is one that --filter chooses\n"),
			"a line says that no call is one that a filter chooses"))
			tap_diag("%s%s", result.out, result.err);
		verb_result_deinit(&result);
	}
}

static void test_report(const char *dir)
{
	const char *const argv[] = {"report",          "-a",     "functions", "-f",
				    "duration > 2000", "--json", dir,         NULL};
	json_t *root = verb_json(cmd_report, argv);
	const json_t *rows = json_object_get(root, "functions");

	is_u64(json_array_size(rows), 2, "a report counts calls of a duration");
	is_u64((uint64_t)json_integer_value(json_object_get(json_array_get(rows, 1), "calls")), 1,
	       "and no others");
	is_u64((uint64_t)json_integer_value(json_object_get(root, "open_calls")), 0,
	       "nor those that are open");
	json_decref(root);
}

static void refuses(const char *dir, const char *filter, const char *wanted)
{
	const char *const argv[] = {"events", "--graph", "--filter", filter, dir, NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	if (!ok(result.status == 2 && strstr(result.err, wanted), "%s is refused: %s", filter,
		wanted))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
}

int main(void)
{
	struct scratch dir = scratch_make();

	make(dir.path);
	test_text(dir.path);
	test_json(dir.path);
	test_nothing(dir.path);
	test_report(dir.path);
	refuses(dir.path, "durations > 5", "did you mean 'duration'?");
	refuses(dir.path, "comm == x && duration > 5", "comm");
	scratch_remove(&dir);
	return tap_done();
}
