/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of verbs that write reports for browsers. */
#include <stddef.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/html/html.h"

const struct cli_option html_options[] = {
	{.name = "html",
	 .value = "FILE",
	 .help = "write a report for browsers to FILE, which must be new;\n"
		 "-: standard output",
	 .store = cli_store_text,
	 .offset = offsetof(struct html_target, path)},
	{.name = "force",
	 .help = "replace the file of --html",
	 .store = cli_store_flag,
	 .offset = offsetof(struct html_target, replace)},
	{.name = NULL},
};

int html_check_target(const char *verb, const struct html_target *target)
{
	if (target->replace && !target->path)
		return cli_usage(verb, "--force replaces the file of --html FILE");
	return CLI_OK;
}
