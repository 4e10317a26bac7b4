/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

struct options {
	bool json;
	const char *kernel;
};

static const struct cli_option option_table[] = {
	CLI_KERNEL_OPTION(struct options),
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "check",
	.usage = "usage: sonde check [-k KERNEL] [--json] DIR\n"
		 "\n"
		 "Look for errors in the trace DIR. Exit status 1 if there are any.\n",
	.tables = tables,
};

int cmd_check(int argc, char **argv)
{
	struct analysis_config config = {.choice = {-1, -1, -1}};
	struct options options = {0};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde check --help'");
	config.kernel = options.kernel;
	return analysis_show(verb.name, analysis_find("check"), &config, argv[optind],
			     options.json);
}
