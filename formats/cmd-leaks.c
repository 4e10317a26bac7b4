/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/options.h"

static const struct cli_option option_table[] = {
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N call sites; default: all",
	 .store = cli_store_number,
	 .offset = offsetof(struct analysis_command, top)},
	{.name = "older",
	 .value = "TIME",
	 .help = "of what is live, only what is at least so old: 3s, 500ms; verdicts are\n"
		 "by all",
	 .store = cli_store_time,
	 .min = 1,
	 .max = CLI_LONGEST_MS,
	 .offset = offsetof(struct analysis_command, older_ms)},
	{.name = "verbose",
	 .letter = 'v',
	 .help = "all call sites with live memory, not only suspicious ones",
	 .store = cli_store_flag,
	 .offset = offsetof(struct analysis_command, verbose)},
	CLI_JSON_OPTION(struct analysis_command, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{option_table, 0},
	{event_choice_options, offsetof(struct analysis_command, view.choice)},
	{replay_view_options, offsetof(struct analysis_command, view)},
	{replay_time_options, offsetof(struct analysis_command, view)},
	{NULL, 0}};

static const struct cli_verb verb = {
	.name = "leaks",
	.usage = "usage: sonde leaks [OPTION]... DIR\n"
		 "\n"
		 "Show what is still live at the end of the trace DIR, and whether it looks like a "
		 "leak.\n",
	.tables = tables,
	.notes = replay_view_notes,
};

int cmd_leaks(int argc, char **argv)
{
	return analysis_main(&verb, argc, argv);
}
