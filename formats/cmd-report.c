/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"
#include "formats/cmd.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"

enum { DEFAULT_TOP = 25 }; /* in text: a screenful */

static const char verb[] = "report";

static const char help[] =
	"usage: sonde report [OPTION]... DIR\n"
	"\n"
	"Show who allocated how much memory in the trace DIR.\n"
	"\n"
	"  -a, --analysis NAME  show kmem (default), or check: what sonde check finds\n"
	"  -b, --by WHAT        group by callsite (default), cache, size or pointer\n"
	"  -s, --sort KEY       order by bytes (default: allocated ones), requested, hits,\n"
	"                       fragmentation, cross-cpu or live\n"
	"  -n, --top N          show the first N groups; 0: all. Default: 25, with --json all\n"
	"  -t, --type TYPE      only objects of kmalloc, cache or pages\n"
	"  -j, --json           print JSON\n"
	"  -h, --help           print this\n";

struct options {
	const char *analysis, *words[ANALYSIS_NR_OPTIONS]; /* NULL: not given */
	bool json, has_top;
	uint64_t top;
};

static int set_top(struct options *options, const char *text)
{
	options->has_top = true;
	if (!cli_parse_u64(text, 0, UINT64_MAX, &options->top))
		return CLI_OK;
	return cli_usage(verb, "--top: '%s' is not a number", text);
}

static int apply_option(void *arg, int option, const char *value)
{
	struct options *options = arg;

	switch (option) {
	case 'a':
		options->analysis = value;
		return CLI_OK;
	case 'b':
		options->words[ANALYSIS_BY] = value;
		return CLI_OK;
	case 's':
		options->words[ANALYSIS_SORT] = value;
		return CLI_OK;
	case 't':
		options->words[ANALYSIS_TYPE] = value;
		return CLI_OK;
	case 'n':
		return set_top(options, value);
	default:
		options->json = true;
		return CLI_OK;
	}
}

static const struct option long_options[] = {
	{"analysis", required_argument, NULL, 'a'}, {"by", required_argument, NULL, 'b'},
	{"sort", required_argument, NULL, 's'},     {"top", required_argument, NULL, 'n'},
	{"type", required_argument, NULL, 't'},     {"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

static const struct cli_syntax syntax = {verb, help, ":a:b:s:n:t:jh", long_options, apply_option};

/* "callsite, cache, size or pointer" */
static struct text list_words(const char *const *words)
{
	struct text list = {""};
	size_t used = 0;

	for (size_t i = 0; words[i] && used < sizeof(list.s); i++)
		used += (size_t)snprintf(list.s + used, sizeof(list.s) - used, "%s%s",
					 !i             ? ""
					 : words[i + 1] ? ", "
							: " or ",
					 words[i]);
	return list;
}

/* The index of a word in `words`; -1 after printing why there is none. */
static int choose(const char *option, const char *word, const char *const *words)
{
	for (int i = 0; words && words[i]; i++) {
		if (!strcmp(word, words[i]))
			return i;
	}
	if (words)
		cli_usage(verb, "--%s takes %s, not '%s'", option, list_words(words).s, word);
	else
		cli_usage(verb, "this analysis takes no --%s", option);
	return -1;
}

static int choose_all(const struct options *options, const struct analysis_ops **ops,
		      struct analysis_config *config)
{
	static const char *const names[ANALYSIS_NR_OPTIONS] = {
		[ANALYSIS_BY] = "by", [ANALYSIS_SORT] = "sort", [ANALYSIS_TYPE] = "type"};
	int analysis = 0;

	if (options->analysis)
		analysis = choose("analysis", options->analysis, analysis_names);
	if (analysis < 0)
		return CLI_USAGE;
	*ops = analysis_table[analysis];
	for (size_t i = 0; i < ANALYSIS_NR_OPTIONS; i++) {
		config->choice[i] = -1;
		if (!options->words[i])
			continue;
		config->choice[i] = choose(names[i], options->words[i], (*ops)->words[i]);
		if (config->choice[i] < 0)
			return CLI_USAGE;
	}
	return CLI_OK;
}

int cmd_report(int argc, char **argv)
{
	struct options options = {0};
	const struct analysis_ops *ops;
	struct analysis_config config;
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (choose_all(&options, &ops, &config))
		return CLI_USAGE;
	if (optind != argc - 1)
		return cli_usage(verb, "name one trace directory; see 'sonde report --help'");
	config.top = options.has_top ? options.top : options.json ? 0 : DEFAULT_TOP;
	return analysis_show(verb, ops, &config, argv[optind], options.json);
}
