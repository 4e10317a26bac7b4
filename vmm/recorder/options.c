/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/recorder/options.h"

#include "formats/cli/cli.h"

int trace_args_add(struct trace_args *args, const char *verb, const char *spec)
{
	if (args->n == TRACE_ARGS_MAX)
		return cli_usage(verb, "more than %d --trace", TRACE_ARGS_MAX);
	args->specs[args->n++] = spec;
	return 0;
}
