/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "formats/allocators/model.h"
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

enum { DEFAULT_TOP = 10 };

struct options {
	struct replay_view view;
	const char *allocator;
	uint64_t top;
	bool json, list;
};

static const struct cli_option option_table[] = {
	{.name = "allocator",
	 .letter = 'a',
	 .value = "MODEL",
	 .help = "guest (default), a model that --list names, or a file with a slash in\n"
		 "its name: ./my-model",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, allocator)},
	{.name = "list",
	 .letter = 'l',
	 .help = "list the models",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, list)},
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N caches; default: 10; 0: all",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	{.name = "time",
	 .value = "FROM,TO",
	 .help = "the course from FROM to before TO seconds of the trace clock, and\n"
		 "what was held then; either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, view.time)},
	{.name = "instance",
	 .letter = 'i',
	 .value = "NAME",
	 .help = "of several kmem instances in the trace, this one; default: the first",
	 .store = cli_store_list,
	 .offset = offsetof(struct options, view.choice.instances)},
	{.name = "follow",
	 .letter = 'F',
	 .help = "go on while the trace is being recorded; on a terminal, show the\n"
		 "state each second",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, view.follow)},
	CLI_JSON_OPTION(struct options, "print JSON, with all caches"),
	{.name = NULL},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "replay",
	.usage = "usage: sonde replay [OPTION]... DIR\n"
		 "       sonde replay --list\n"
		 "\n"
		 "Run the allocations of the trace DIR through a model of a slab allocator, and "
		 "show what\nit would have held, beside what the guest's own did.\n",
	.tables = tables,
};

static int list_models(void)
{
	printf("%-19s%s\n", MODEL_OF_GUEST,
	       "that of the guest's kernel, by its allocator and version");
	for (const struct model *model = model_table; *model->name; model++)
		printf("%-19s%s\n", model->name, model->about);
	return cli_flush(verb.name);
}

/* A file may be there or not; the names are known. */
static int check_allocator(const char *name)
{
	struct model model;
	struct error err;

	if (!name || strchr(name, '/') || !strcmp(name, MODEL_OF_GUEST) ||
	    !model_find(name, &model, &err))
		return CLI_OK;
	return cli_usage(verb.name, "--allocator: %s", err.text);
}

int cmd_replay(int argc, char **argv)
{
	static const char *const names[] = {"allocators", NULL};
	struct options options = {.view = REPLAY_ALL, .top = DEFAULT_TOP};
	int ret = cli_parse(&verb, argc, argv, &options);
	struct analysis_options wanted = {.allocator = options.allocator};

	if (ret)
		return ret - 1;
	if (options.list && optind == argc)
		return list_models();
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde replay --help'");
	ret = check_allocator(options.allocator);
	if (ret)
		return ret;
	wanted.dir = argv[optind];
	wanted.top = options.json ? 0 : options.top;
	return analysis_show(verb.name, names, &options.view, &wanted, options.json);
}
