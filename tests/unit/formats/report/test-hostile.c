/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of a hostile guest: no verb sends a control character to a terminal or into a text, and
 * none of the names is markup in an image. What a browser makes of them is in tests/html. */
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/hostile-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"
#include "tests/lib/trace-make.h"

enum { MOST_ARGS = 8 };

static void test_verbs(const char *dir)
{
	static const struct {
		int (*verb)(int argc, char **argv);
		const char *argv[MOST_ARGS];
		bool has_names;
	} rows[] = {
		{cmd_report, {"report", "-v"}, true},
		{cmd_report, {"report", "--by", "cache", "--top", "0"}, true},
		{cmd_report, {"report", "--by", "module,task", "--top", "0"}, true},
		{cmd_report, {"report", "-a", "events,functions,syscalls", "--top", "0"}, true},
		{cmd_report, {"report", "--json"}, true},
		{cmd_report, {"report", "--history", "0xffff88800000b000"}, false},
		{cmd_leaks, {"leaks"}, true},
		{cmd_timeline, {"timeline"}, true},
		{cmd_diff, {"diff", "--time-a", ",0.02", "--time-b", "0.02,", "--top", "0"}, false},
		{cmd_replay, {"replay", "--allocator", "slub-6.1"}, true},
		{cmd_check, {"check"}, false},
		{cmd_events, {"events"}, true},
		{cmd_events, {"events", "--json"}, true},
		{cmd_events, {"events", "--graph"}, true},
		{cmd_events, {"events", "--graph", "--json"}, true},
		{cmd_events, {"events", "--graph", "-f", "duration >= 0"}, true},
		{cmd_events, {"events", "--syscalls"}, true},
		{cmd_events, {"events", "-f", "cache == '\x1b[7m'"}, false},
		{cmd_events, {"events", "-e", "\x1b[7m"}, false},
		{cmd_convert, {"convert", "--to", "csv", "-o", "-"}, true},
		{cmd_convert, {"convert", "--to", "jsonl", "-o", "-"}, true},
		{cmd_convert, {"convert", "--to", "folded", "-o", "-"}, true},
		{cmd_convert, {"convert", "--to", "flamegraph", "-o", "-"}, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *argv[MOST_ARGS + 2] = {0};
		struct verb_result result;
		size_t n = 0;

		for (; rows[i].argv[n]; n++)
			argv[n] = rows[i].argv[n];
		argv[n] = dir;
		result = verb_run(rows[i].verb, argv);
		if (!ok(hostile_text_is_plain(result.out) && hostile_text_is_plain(result.err),
			"row %zu: sonde %s prints no control character", i, argv[0]) ||
		    (rows[i].has_names && !ok(strstr(result.out, "script>window." HOSTILE_MARK),
					      "and the names as they are")))
			tap_diag("%s%s", result.err, result.out);
		verb_result_deinit(&result);
	}
}

/* It has the elements of an image with text, and no program. */
static void test_image(const char *dir)
{
	static const char elements[] = "count(//*[not(contains(' svg style rect g title text ', "
				       "concat(' ', local-name(), ' ')))])"
				       " + count(//@*[starts-with(name(), 'on')]) + "
				       "count(//*[local-name()='title' or local-name()='text']/*)";
	const char *argv[] = {"convert", dir, "--to", "flamegraph", "-o", NULL, NULL};
	struct verb_result result;
	char path[160], *text;

	snprintf(path, sizeof(path), "%s.svg", dir);
	argv[5] = path;
	result = verb_run(cmd_convert, argv);
	ok(!result.status, "a flame graph is written: %s", result.err);
	verb_result_deinit(&result);
	if (!tool_exists("xmllint")) {
		tap_skip("xmllint finds no foreign elements", "xmllint is not installed");
		return;
	}
	tool_run(&text, "xmllint --xpath \"%s\" '%s'", elements, path);
	is_str(text, "0\n", "no name is an element of it, or a program");
	free(text);
	tool_run(&text,
		 "xmllint --xpath \"count(//*[local-name()='title'][contains(., "
		 "'<script>window.')]) > 0\" '%s'",
		 path);
	is_str(text, "true\n", "they are its texts");
	free(text);
}

int main(void)
{
	struct scratch dir = scratch_make();
	char trace[128];

	snprintf(trace, sizeof(trace), "%s/trace", dir.path);
	hostile_make(trace);
	test_verbs(trace);
	test_image(trace);
	scratch_remove(&dir);
	return tap_done();
}
