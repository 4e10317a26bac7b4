/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/cmd.h"

#include <getopt.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/image/kernel-image.h"

static const char verb[] = "probes";

struct options {
	const char *kernel, *system_map, *btf;
	bool json;
};

static const struct cli_option option_table[] = {
	{.name = "kernel",
	 .letter = 'k',
	 .value = "FILE",
	 .help = "a bzImage or an ELF vmlinux",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, kernel)},
	CLI_GIVEN_OPTIONS(struct options),
	CLI_JSON_OPTION(struct options, "print JSON"),
	{0},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb syntax = {
	.name = verb,
	.usage = "usage: sonde probes -k KERNEL [OPTION...] [PATTERN[,PATTERN...]...]\n"
		 "\n"
		 "List the functions of a kernel that dynamic probes can record, with the names "
		 "and\n"
		 "types of their parameters: all of them, or those that PATTERNs stand for.\n",
	.tables = tables,
};

static int show(const struct options *options, char *const *patterns)
{
	struct kernel_image *image = NULL;
	struct kernel_given given;
	struct error err;
	int ret = kernel_given_open(options->system_map, options->btf, &given, &err);

	if (!ret)
		ret = kernel_image_open(options->kernel, &given, &image, &err);
	ret = ret ? cli_error(verb, &err)
		  : functions_print_probes(verb, image, patterns, options->json);
	kernel_image_destroy(image);
	kernel_given_close(&given);
	return ret;
}

int cmd_probes(int argc, char **argv)
{
	static char all[] = "*";
	char *const every[] = {all, NULL};
	struct options options = {0};
	int ret = cli_parse(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (!options.kernel)
		return cli_usage(verb, "no kernel given: use -k KERNEL; see 'sonde probes --help'");
	return show(&options, argv[optind] ? argv + optind : every);
}
