/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <getopt.h>
#include <stdio.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/hist/hists.h"
#include "formats/report/trace-text.h"
#include "vmm/cmd.h"
#include "vmm/ctl/document.h"

static const char verb_name[] = "hist";
static const struct document_kind kind = {.query = "query-hist",
					  .file = HIST_FILE,
					  .what = "histogram",
					  .spec = "TRACER:...,hist:keys=..."};

struct options {
	bool json;
	uint64_t top;
	const char *sort, *name;
};

static int read_source(const char *source, struct hist_set *out, struct error *err)
{
	json_t *document;
	int ret = document_read(&kind, source, &document, err);

	if (ret)
		return ret;
	ret = hist_set_parse(document, out, err);
	json_decref(document);
	if (ret)
		error_prefix(err, "%s: ", source);
	return ret;
}

static int print(const struct options *o, struct hist_set *set)
{
	const struct hist_text_options text = {.top = o->top};

	if (o->json) {
		hist_set_cut(set, o->top);
		return text_print_json(verb_name, hist_set_json(set));
	}
	hist_set_print(stdout, set, &text);
	return cli_flush(verb_name);
}

static int show(const struct options *o, const char *source)
{
	struct hist_set set;
	struct error err = {0};
	int ret = read_source(source, &set, &err);

	if (ret)
		return cli_error(verb_name, &err);
	if (o->name)
		ret = hist_set_keep(&set, o->name, &err);
	if (!ret && o->sort)
		ret = hist_set_sort(&set, o->sort, &err);
	ret = ret ? cli_usage(verb_name, "%s", err.text) : print(o, &set);
	hist_set_deinit(&set);
	return ret;
}

static const struct cli_option options_table[] = {
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N entries; 0: all (default, and with --json)",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	{.name = "sort",
	 .letter = 's',
	 .value = "FIELD[,FIELD]",
	 .help = "order by hitcount, a value or a key; FIELD.descending: largest first",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, sort)},
	{.name = "name",
	 .value = "NAME",
	 .help = "only the instance NAME",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, name)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{0},
};

static const struct cli_table tables[] = {{options_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = verb_name,
	.usage =
		"usage: sonde hist [OPTION]... SOURCE\n"
		"\n"
		"Show histograms of events, which --trace TRACER:...,hist:keys=... lets the guest\n"
		"sum up, as its own hist triggers show them. SOURCE is a trace, the monitor\n"
		"SOCKET of a guest that runs, or a file with the output of --json.\n",
	.tables = tables,
};

int cmd_hist(int argc, char **argv)
{
	struct options options = {0};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind + 1 != argc)
		return cli_usage(verb_name, "which SOURCE? usage: sonde hist [OPTION]... SOURCE");
	return show(&options, argv[optind]);
}
