/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"

static const char verb[] = "check";

static const char help[] = "usage: sonde check [--json] DIR\n"
			   "\n"
			   "Look for errors in the trace DIR. Exit status 1 if there are any.\n"
			   "\n"
			   "  -j, --json  print JSON\n"
			   "  -h, --help  print this\n";

struct options {
	bool json;
};

static const struct option long_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int apply_option(void *arg, int option, const char *value)
{
	(void)option;
	(void)value;
	((struct options *)arg)->json = true;
	return CLI_OK;
}

static const struct cli_syntax syntax = {verb, help, ":jh", long_options, apply_option};

int cmd_check(int argc, char **argv)
{
	const struct analysis_config config = {.choice = {-1, -1, -1}};
	struct options options = {0};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb, "name one trace directory; see 'sonde check --help'");
	return analysis_show(verb, analysis_find("check"), &config, argv[optind], options.json);
}
