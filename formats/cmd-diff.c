/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/diff/diff.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/groups/measure.h"
#include "formats/html/html.h"

enum { DEFAULT_TOP = 20 };

struct options {
	struct replay_view view;
	struct cli_time_range times[2];
	struct diff_options diff;
	uint64_t top; /* UINT64_MAX: not given */
	bool json;
	struct html_target html;
};

static int store_grouping(const char *verb, const struct cli_option *option, const char *text,
			  void *field)
{
	return grouping_parse(verb, option, text, NULL, field);
}

static const struct cli_option option_table[] = {
	{.name = "time-a",
	 .value = "FROM,TO",
	 .help = "of A, only what happened in these seconds of the trace clock",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, times[0])},
	{.name = "time-b",
	 .value = "FROM,TO",
	 .help = "the same of B, or of the other part of A if B is not given",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, times[1])},
	{.name = "by",
	 .letter = 'b',
	 .value = "LIST",
	 .help = "compare by callsite (default), function, cache, or another of the\n"
		 "groups of sonde report, or several: cache,callsite",
	 .store = store_grouping,
	 .offset = offsetof(struct options, diff.by)},
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N changes; 0: all. Default: 20, with --json all",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{option_table, 0},
	{html_options, offsetof(struct options, html)},
	{event_choice_options, offsetof(struct options, view.choice)},
	{replay_view_options, offsetof(struct options, view)},
	{NULL, 0}};

static const struct cli_verb verb = {
	.name = "diff",
	.usage = "usage: sonde diff [OPTION]... A [B]\n"
		 "\n"
		 "Show what changed from the trace A to B, or between two parts of A.\n",
	.tables = tables,
	.notes = replay_view_notes,
};

int cmd_diff(int argc, char **argv)
{
	struct options options = {.view = REPLAY_ALL,
				  .diff.by = {{BY_CALLSITE}, 1},
				  .times = {CLI_ALL_TIME, CLI_ALL_TIME},
				  .top = UINT64_MAX};
	struct replay_view views[2];
	bool is_whole[2];
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1 && optind != argc - 2)
		return cli_usage(verb.name, "name one or two traces; see 'sonde diff --help'");
	for (int i = 0; i < 2; i++)
		is_whole[i] = optind == argc - 1 && cli_time_is_all(&options.times[i]);
	if (is_whole[0] && is_whole[1])
		return cli_usage(verb.name, "name a second trace, or parts of the first one: "
					    "--time-a 0,5 --time-b 5,10");
	for (int i = 0; i < 2; i++) {
		views[i] = options.view;
		views[i].time = options.times[i];
	}
	options.diff.dirs[0] = argv[optind];
	options.diff.dirs[1] = argv[argc - 1];
	options.diff.top = options.top == UINT64_MAX
				   ? (options.json || options.html.path ? 0 : DEFAULT_TOP)
				   : options.top;
	if (options.html.path && options.json)
		return cli_usage(verb.name, "--html writes a file; leave out --json");
	ret = html_check_target(verb.name, &options.html);
	if (ret)
		return ret;
	ret = options.html.path ? html_diff(verb.name, views, &options.diff, &options.html)
				: diff_show(verb.name, views, &options.diff, options.json);
	for (int i = 0; !ret && i < 2; i++)
		if (is_whole[i])
			cli_note(verb.name, "--time-%c is not given: %c is the whole trace",
				 "ab"[i], "AB"[i]);
	return ret;
}
