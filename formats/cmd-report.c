/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/html/html.h"
#include "formats/report/table.h"

/* Rows in text, and those of a terminal with few lines; the overview takes up to OVERVIEW lines. */
enum { DEFAULT_TOP = 10, LEAST_TOP = 5, OVERVIEW = 19 };

struct options {
	struct replay_view view;
	unsigned int analysis;
	struct grouping by; /* n 0: not given */
	bool by_syscall;    /* instead: the analysis of that name */
	unsigned int sort;
	uint32_t measures;
	bool json, verbose, has_pointer;
	uint64_t top; /* UINT64_MAX: not given */
	uint64_t older_ms, pointer;
	struct html_target html;
};

/* The index of the word that ends at `end`; -1 after printing why there is none. */
static int choose(const char *verb, const struct cli_option *option, const char *word,
		  const char *end, const char *const *words)
{
	char copy[64];
	const char *near;

	snprintf(copy, sizeof(copy), "%.*s", (int)(end - word), word);
	for (int i = 0; words[i]; i++) {
		if (!strcmp(copy, words[i]))
			return i;
	}
	near = text_nearest(copy, words);
	cli_usage(verb, "--%s takes %s, not '%s'%s%s%s", option->name, text_words(words).s, copy,
		  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return -1;
}

/* "cache,callsite" */
static int store_grouping(const char *verb, const struct cli_option *option, const char *text,
			  void *field)
{
	struct options *o = field;
	struct grouping *by = &o->by;

	by->n = 0;
	o->by_syscall = !strcmp(text, "syscall");
	if (o->by_syscall)
		return CLI_OK;
	for (;;) {
		const char *end = strchrnul(text, ',');
		int word = choose(verb, option, text, end, dimension_names);

		if (word < 0)
			return CLI_USAGE;
		if (by->n == GROUPING_MAX)
			return cli_usage(verb, "--by takes at most %d words", GROUPING_MAX);
		by->by[by->n++] = (enum dimension)word;
		if (!*end)
			return CLI_OK;
		text = end + 1;
	}
}

/* "live,wasted" */
static int store_measures(const char *verb, const struct cli_option *option, const char *text,
			  void *field)
{
	uint32_t *measures = field;

	for (*measures = 0;;) {
		const char *end = strchrnul(text, ',');
		int word = choose(verb, option, text, end, measure_names);

		if (word < 0)
			return CLI_USAGE;
		*measures |= 1u << word;
		if (!*end)
			return CLI_OK;
		text = end + 1;
	}
}

static int store_sort(const char *verb, const struct cli_option *option, const char *text,
		      void *field)
{
	int word = choose(verb, option, text, text + strlen(text), measure_names);

	*(unsigned int *)field = (unsigned int)word;
	return word < 0 ? CLI_USAGE : CLI_OK;
}

/* As sonde events and babeltrace2 print them, in either case. */
static int store_pointer(const char *verb, const struct cli_option *option, const char *text,
			 void *field)
{
	struct options *o = field;
	char *end;

	o->pointer = strtoull(text, &end, 16);
	o->has_pointer = true;
	if (end != text && !*end && *text != '-')
		return CLI_OK;
	return cli_usage(verb, "%s: '%s' is not an address such as 0xffff888003c42000",
			 cli_label(option).text, text);
}

static const struct cli_option option_table[] = {
	{.name = "by",
	 .letter = 'b',
	 .value = "LIST",
	 .help = "group by callsite (default), cache, type, size, sizeclass,\n"
		 "function, module, node, vcpu, task or pointer, or several:\n"
		 "cache,callsite;\n"
		 "or syscall: as --analysis syscalls",
	 .store = store_grouping},
	{.name = "sort",
	 .letter = 's',
	 .value = "KEY",
	 .help = "order by live (default: bytes), wasted, objects, slabs, peak, hits,\n"
		 "rate, lifetime, cross-cpu, bytes (allocated), requested or\n"
		 "fragmentation",
	 .store = store_sort,
	 .offset = offsetof(struct options, sort)},
	{.name = "measures",
	 .letter = 'm',
	 .value = "LIST",
	 .help = "show these columns, named as for --sort: live,wasted",
	 .store = store_measures,
	 .offset = offsetof(struct options, measures)},
	{.name = "top",
	 .letter = 'n',
	 .value = "N",
	 .help = "show the first N groups; 0: all. Default: 10, fewer on a terminal\n"
		 "with less than 29 lines; with --json all",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, top)},
	{.name = "older",
	 .value = "TIME",
	 .help = "of what is live, only what is at least so old: 3s, 500ms",
	 .store = cli_store_time,
	 .min = 1,
	 .max = UINT64_C(1) << 32,
	 .offset = offsetof(struct options, older_ms)},
	{.name = "history",
	 .value = "POINTER",
	 .help = "show what happened at an address instead",
	 .store = store_pointer},
	{.name = "analysis",
	 .letter = 'a',
	 .value = "NAME",
	 .help = "show one of kmem (default), overview, check and so on instead",
	 .store = cli_store_choice,
	 .words = analysis_names,
	 .offset = offsetof(struct options, analysis)},
	{.name = "verbose",
	 .letter = 'v',
	 .help = "all sums, columns and rows, those too that are counted elsewhere",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, verbose)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = "html",
	 .value = "FILE",
	 .help = "write a report for browsers to FILE, which must be new",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, html.path)},
	{.name = "force",
	 .help = "replace the file of --html",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, html.replace)},
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{option_table, 0}, {replay_view_options, offsetof(struct options, view)}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "report",
	.usage = "usage: sonde report [OPTION]... DIR\n"
		 "\n"
		 "Show where the memory of the guest in the trace DIR is, and who allocated it;\n"
		 "of a trace of other tracers, its events and calls.\n",
	.tables = tables,
};

/* So many rows that the first screen is one. */
static size_t default_top(void)
{
	const size_t lines = terminal_height(stdout);

	if (!lines || lines >= OVERVIEW + DEFAULT_TOP)
		return DEFAULT_TOP;
	return lines > OVERVIEW + LEAST_TOP ? lines - OVERVIEW : LEAST_TOP;
}

static struct analysis_options options_of(const struct options *options, const char *dir)
{
	struct analysis_options out = {
		.dir = dir,
		.by = options->by,
		.sort = (enum measure)options->sort,
		.measures = options->measures,
		.top = options->top,
		.verbose = options->verbose,
		.older_ns = (int64_t)options->older_ms * 1000000,
		.pointer = options->pointer,
	};

	if (!out.by.n)
		out.by = (struct grouping){{BY_CALLSITE}, 1};
	if (options->top == UINT64_MAX)
		out.top = options->json ? 0 : default_top();
	return out;
}

/* It has all groups and measures; which of them are shown is chosen in the browser. */
static int check_html(const struct options *options)
{
	if (options->html.replace && !options->html.path)
		return cli_usage(verb.name, "--force replaces the file of --html FILE");
	if (!options->html.path)
		return CLI_OK;
	if (options->json || options->analysis || options->has_pointer || options->view.follow)
		return cli_usage(verb.name, "--html takes no --json, --analysis, --history and "
					    "--follow");
	if (options->by.n || options->measures || options->older_ms)
		return cli_usage(verb.name, "--html takes no --by, --measures and --older");
	return CLI_OK;
}

/* Its number among those that there are. */
static unsigned int find_analysis(const char *name)
{
	unsigned int i = 0;

	while (analysis_names[i] && strcmp(analysis_names[i], name) != 0)
		i++;
	return i;
}

/* Whether what was traced decides what is shown: calls have groups by function, too. */
static bool is_open(const struct options *o)
{
	const bool by_function = o->by.n == 1 && o->by.by[0] == BY_FUNCTION;

	return !o->analysis && !o->has_pointer && !o->measures && !o->older_ms &&
	       (!o->by.n || by_function);
}

int cmd_report(int argc, char **argv)
{
	struct options options = {.view = REPLAY_ALL, .sort = MEASURE_LIVE, .top = UINT64_MAX};
	const char *names[3] = {NULL};
	struct analysis_options shown;
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde report --help'");
	if (options.by_syscall && !options.analysis)
		options.analysis = find_analysis("syscalls");
	ret = check_html(&options);
	if (ret)
		return ret;
	if (options.html.path)
		return html_report(verb.name, argv[optind], &options.view, &options.html);
	names[0] = options.has_pointer ? "history" : analysis_names[options.analysis];
	if (options.analysis && (options.by.n || options.measures || options.older_ms))
		return cli_usage(verb.name, "-a %s takes no --by, --measures and --older",
				 names[0]);
	if (!options.analysis && !options.has_pointer) {
		names[0] = "overview";
		names[1] = analysis_names[0];
	}
	shown = options_of(&options, argv[optind]);
	return analysis_show(verb.name, is_open(&options) ? NULL : names, &options.view, &shown,
			     options.json);
}
