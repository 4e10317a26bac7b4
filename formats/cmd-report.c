/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"

enum { DEFAULT_TOP = 25 }; /* in text: a screenful */

struct options {
	unsigned int analysis;
	const char *words[ANALYSIS_NR_OPTIONS]; /* NULL: not given */
	bool json;
	uint64_t top; /* UINT64_MAX: not given */
	const char *kernel;
};

#define WORD(option) .store = cli_store_text, .offset = offsetof(struct options, words[option])

static const struct cli_option option_table[] = {
	{.name = "analysis",
	 .letter = 'a',
	 .value = "NAME",
	 .help = "show kmem (default), or check: what sonde check finds",
	 .store = cli_store_choice,
	 .words = analysis_names,
	 .offset = offsetof(struct options, analysis)},
	{.name = "by",
	 .letter = 'b',
	 .value = "WHAT",
	 .help = "group by callsite (default), cache, size or pointer",
	 WORD(ANALYSIS_BY)},
	{.name = "sort",
	 .letter = 's',
	 .value = "KEY",
	 .help = "order by bytes (default: allocated ones), requested, hits,\n"
		 "fragmentation, cross-cpu or live",
	 WORD(ANALYSIS_SORT)},
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N groups; 0: all. Default: 25, with --json all",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	{.name = "type",
	 .letter = 't',
	 .value = "TYPE",
	 .help = "only objects of kmalloc, cache or pages",
	 WORD(ANALYSIS_TYPE)},
	CLI_KERNEL_OPTION(struct options),
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "report",
	.usage = "usage: sonde report [OPTION]... DIR\n"
		 "\n"
		 "Show who allocated how much memory in the trace DIR.\n",
	.tables = tables,
};

/* The index of a word among those that the analysis takes; -1 after printing why there is none. */
static int choose(const char *option, const char *word, const char *const *words)
{
	const char *near = words ? text_nearest(word, words) : NULL;

	for (int i = 0; words && words[i]; i++) {
		if (!strcmp(word, words[i]))
			return i;
	}
	if (!words)
		cli_usage(verb.name, "this analysis takes no --%s", option);
	else if (near)
		cli_usage(verb.name, "--%s takes %s, not '%s'; did you mean '%s'?", option,
			  text_words(words).s, word, near);
	else
		cli_usage(verb.name, "--%s takes %s, not '%s'", option, text_words(words).s, word);
	return -1;
}

static int choose_all(const struct options *options, struct analysis_config *config)
{
	static const char *const names[ANALYSIS_NR_OPTIONS] = {
		[ANALYSIS_BY] = "by", [ANALYSIS_SORT] = "sort", [ANALYSIS_TYPE] = "type"};

	for (size_t i = 0; i < ANALYSIS_NR_OPTIONS; i++) {
		config->choice[i] = -1;
		if (!options->words[i])
			continue;
		config->choice[i] = choose(names[i], options->words[i],
					   analysis_table[options->analysis]->words[i]);
		if (config->choice[i] < 0)
			return CLI_USAGE;
	}
	return CLI_OK;
}

int cmd_report(int argc, char **argv)
{
	struct options options = {.top = UINT64_MAX};
	struct analysis_config config = {0};
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (choose_all(&options, &config))
		return CLI_USAGE;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde report --help'");
	if (options.top == UINT64_MAX)
		options.top = options.json ? 0 : DEFAULT_TOP;
	config.top = options.top;
	config.kernel = options.kernel;
	return analysis_show(verb.name, analysis_table[options.analysis], &config, argv[optind],
			     options.json);
}
