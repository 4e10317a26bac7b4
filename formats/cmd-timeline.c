/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/options.h"

static const struct cli_option option_table[] = {
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "divide the time into N rows, up to 1,024; default: 20",
	 .store = cli_store_number,
	 .min = 1,
	 .max = TIMELINE_MAX_ROWS,
	 .offset = offsetof(struct analysis_command, top)},
	{.name = "verbose",
	 .letter = 'v',
	 .help = "32 call sites rather than 10",
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
	.name = "timeline",
	.usage = "usage: sonde timeline [OPTION]... DIR\n"
		 "\n"
		 "Show live memory over time in the trace DIR, its peak, and what made it.\n",
	.tables = tables,
	.notes = replay_view_notes,
};

int cmd_timeline(int argc, char **argv)
{
	return analysis_main(&verb, argc, argv);
}
