/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/options.h"

static const struct cli_option kernel_options[] = {
	CLI_KERNEL_OPTION(struct replay_view),
	CLI_LINES_OPTIONS(struct replay_view, lines, debug_file),
	{.name = NULL},
};

static const struct cli_option json_option[] = {
	CLI_JSON_OPTION(struct analysis_command, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{kernel_options, offsetof(struct analysis_command, view)}, {json_option, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "check",
	.usage = "usage: sonde check [OPTION]... DIR\n"
		 "\n"
		 "Look for errors in the trace DIR. Exit status 1 if there are any.\n",
	.tables = tables,
};

int cmd_check(int argc, char **argv)
{
	return analysis_main(&verb, argc, argv);
}
