/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <stdio.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/profile/profiles.h"
#include "formats/report/trace-text.h"
#include "vmm/cmd.h"
#include "vmm/ctl/document.h"

static const char verb_name[] = "profile";
static const struct document_kind kind = {
	.query = "query-profile", .file = PROFILE_FILE, .what = "profile", .spec = "profile:..."};

enum { DEFAULT_TOP = 20 };

struct options {
	bool json, histogram;
	uint64_t top; /* UINT64_MAX: not given */
	unsigned int sort;
	const char *since, *name;
};

static int read_source(const char *source, struct profile_set *out, struct error *err)
{
	json_t *document;
	int ret = document_read(&kind, source, &document, err);

	if (ret)
		return ret;
	ret = profile_set_parse(document, out, err);
	json_decref(document);
	if (ret)
		error_prefix(err, "%s: ", source);
	return ret;
}

static int subtract(const char *since, struct profile_set *set, struct error *err)
{
	struct profile_set before;
	int ret = read_source(since, &before, err);

	if (ret)
		return ret;
	ret = profile_set_subtract(set, &before, err);
	profile_set_deinit(&before);
	return ret;
}

static int print(const struct options *o, struct profile_set *set)
{
	const bool chosen = o->top != UINT64_MAX;
	const struct profile_text_options text = {.top = chosen ? o->top : DEFAULT_TOP,
						  .histogram = o->histogram};

	if (o->json) {
		profile_set_cut(set, chosen ? o->top : 0);
		return text_print_json(verb_name, profile_set_json(set));
	}
	profile_set_print(stdout, set, &text);
	return cli_flush(verb_name);
}

static int show(const struct options *o, const char *source)
{
	struct profile_set set;
	struct error err = {0};
	int ret = read_source(source, &set, &err);

	if (ret)
		return cli_error(verb_name, &err);
	if (o->name && profile_set_keep(&set, o->name, &err))
		ret = cli_usage(verb_name, "%s", err.text);
	else if (o->since && subtract(o->since, &set, &err))
		ret = cli_error(verb_name, &err);
	if (!ret) {
		profile_set_sort(&set, (enum profile_key)o->sort);
		ret = print(o, &set);
	}
	profile_set_deinit(&set);
	return ret;
}

static const struct cli_option options_table[] = {
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N functions; 0: all. Default: 20, with --json all",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	{.name = "sort",
	 .letter = 's',
	 .value = "KEY",
	 .help = "order by total (default), hits, mean, max or name",
	 .store = cli_store_choice,
	 .words = profile_keys,
	 .offset = offsetof(struct options, sort)},
	{.name = "since",
	 .value = "SOURCE",
	 .help = "only what was counted since then: the output of --json",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, since)},
	{.name = "name",
	 .value = "NAME",
	 .help = "only the instance NAME",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, name)},
	{.name = "hist",
	 .help = "show the distribution of times, where it was counted",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, histogram)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{0},
};

static const struct cli_table tables[] = {{options_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage = "usage: sonde profile [OPTION]... SOURCE\n"
		 "\n"
		 "Show how often functions were called, and how long they took, as counted by\n"
		 "the profile tracer. SOURCE is a trace, the monitor SOCKET of a guest that runs,\n"
		 "or a file with the output of --json.\n",
	.tables = tables,
};

int cmd_profile(int argc, char **argv)
{
	struct options options = {.top = UINT64_MAX};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind + 1 != argc)
		return cli_usage(verb_name,
				 "which SOURCE? usage: sonde profile [OPTION]... SOURCE");
	return show(&options, argv[optind]);
}
