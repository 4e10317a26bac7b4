/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

struct options {
	struct replay_view view;
	bool json;
};

static const struct cli_option kernel_option[] = {
	CLI_KERNEL_OPTION(struct replay_view),
	{.name = NULL},
};

static const struct cli_option json_option[] = {
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{kernel_option, offsetof(struct options, view)}, {json_option, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "check",
	.usage = "usage: sonde check [-k KERNEL] [--json] DIR\n"
		 "\n"
		 "Look for errors in the trace DIR. Exit status 1 if there are any.\n",
	.tables = tables,
};

int cmd_check(int argc, char **argv)
{
	static const char *const names[] = {"check", NULL};
	struct options options = {.view = REPLAY_ALL};
	struct analysis_options shown = {0};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde check --help'");
	shown.dir = argv[optind];
	return analysis_show(verb.name, names, &options.view, &shown, options.json);
}
