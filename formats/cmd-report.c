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

/* The word decides whether memory or calls are sorted. */
struct sort {
	const char *word; /* NULL: not given */
	enum measure measure;
	enum call_order call_order;
};

struct options {
	struct replay_view view;
	const char *analyses[NR_ANALYSES + 1];
	size_t nr_analyses; /* 0: not given */
	struct grouping by; /* n 0: not given */
	bool by_syscall;    /* instead: the analysis of that name */
	struct sort sort;
	uint32_t measures;
	bool json, verbose, has_pointer;
	uint64_t top; /* UINT64_MAX: not given */
	uint64_t older_ms, pointer;
	const char *only;
	struct html_target html;
};

/* "cache,callsite" */
static int store_grouping(const char *verb, const struct cli_option *option, const char *text,
			  void *field)
{
	struct options *o = field;

	o->by.n = 0;
	o->by_syscall = !strcmp(text, "syscall");
	return o->by_syscall ? CLI_OK : grouping_parse(verb, option, text, "syscall", &o->by);
}

static bool has_analysis(const struct options *o, const char *name)
{
	for (size_t i = 0; i < o->nr_analyses; i++) {
		if (!strcmp(o->analyses[i], name))
			return true;
	}
	return false;
}

/* "leaks,timeline" */
static int store_analyses(const char *verb, const struct cli_option *option, const char *text,
			  void *field)
{
	struct options *o = field;

	for (o->nr_analyses = 0;;) {
		const char *end = strchrnul(text, ',');
		int word = cli_find_word(verb, option, text, end, analysis_names);

		if (word < 0)
			return CLI_USAGE;
		if (has_analysis(o, analysis_names[word]))
			return cli_usage(verb, "--analysis names %s twice", analysis_names[word]);
		o->analyses[o->nr_analyses++] = analysis_names[word];
		o->analyses[o->nr_analyses] = NULL;
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
		int word = cli_find_word(verb, option, text, end, measure_names);

		if (word < 0)
			return CLI_USAGE;
		if (*measures & 1u << word)
			return cli_usage(verb, "--measures names %s twice", measure_names[word]);
		*measures |= 1u << word;
		if (!*end)
			return CLI_OK;
		text = end + 1;
	}
}

static int store_sort(const char *verb, const struct cli_option *option, const char *text,
		      void *field)
{
	const char *words[NR_MEASURES + NR_CALL_ORDERS + 1] = {NULL};
	struct sort *sort = field;
	int word;

	memcpy(words, measure_names, NR_MEASURES * sizeof(*words));
	memcpy(words + NR_MEASURES, call_order_names, NR_CALL_ORDERS * sizeof(*words));
	word = cli_find_word(verb, option, text, text + strlen(text), words);
	if (word < 0)
		return CLI_USAGE;
	*sort = (struct sort){.word = text, .measure = MEASURE_LIVE};
	if (word < NR_MEASURES)
		sort->measure = (enum measure)word;
	else
		sort->call_order = (enum call_order)(word - NR_MEASURES);
	return CLI_OK;
}

/* In CTF an address has 48 or 57 bits, and the higher ones are copies of the highest of these.
 * Babeltrace2 prints only those that are there: 0x8B4041048380. */
static uint64_t full_address(uint64_t address)
{
	static const unsigned int sizes[] = {48, 57};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (address >> (sizes[i] - 1) == 1)
			return address | UINT64_MAX << sizes[i];
	}
	return address;
}

/* As sonde events and babeltrace2 print them, in either case. */
static int store_pointer(const char *verb, const struct cli_option *option, const char *text,
			 void *field)
{
	struct options *o = field;
	char *end;

	o->pointer = full_address(strtoull(text, &end, 16));
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
	 .help = "group by callsite (default), cache, type, object, size,\n"
		 "sizeclass, function, module, node, vcpu, task or pointer, or\n"
		 "several: cache,callsite;\n"
		 "or syscall: as --analysis syscalls",
	 .store = store_grouping},
	{.name = "sort",
	 .letter = 's',
	 .value = "KEY",
	 .help = "order by live (default: bytes), wasted, objects, slabs, peak, hits,\n"
		 "rate, lifetime, cross-cpu, cross-node, bytes (allocated),\n"
		 "requested or fragmentation; calls (-a functions, -a syscalls) by total\n"
		 "(default), self (functions), calls, mean or max",
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
	 .max = CLI_LONGEST_MS,
	 .offset = offsetof(struct options, older_ms)},
	{.name = "only",
	 .value = "GLOB",
	 .help = "of calls of functions, only those with these names, and the calls in\n"
		 "them: vfs_read, '__x64_sys_*'",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, only)},
	{.name = "history",
	 .value = "POINTER",
	 .help = "show what happened at an address instead",
	 .store = store_pointer},
	{.name = "analysis",
	 .letter = 'a',
	 .value = "LIST",
	 .help = "show one of kmem (default), overview, check and so on instead, or\n"
		 "several, read in one pass: leaks,timeline",
	 .store = store_analyses},
	{.name = "verbose",
	 .letter = 'v',
	 .help = "all sums, columns and rows, those too that are counted elsewhere",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, verbose)},
	CLI_JSON_OPTION(struct options, "print JSON"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{option_table, 0},
	{html_options, offsetof(struct options, html)},
	{event_choice_options, offsetof(struct options, view.choice)},
	{replay_view_options, offsetof(struct options, view)},
	{replay_time_options, offsetof(struct options, view)},
	{NULL, 0}};

static const struct cli_verb verb = {
	.name = "report",
	.usage = "usage: sonde report [OPTION]... DIR\n"
		 "\n"
		 "Show where the memory of the guest in the trace DIR is, and who allocated it;\n"
		 "of a trace of other tracers, its events and calls.\n",
	.tables = tables,
	.notes = replay_view_notes,
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
		.sort = options->sort.measure,
		.call_order = options->sort.call_order,
		.sort_word = options->sort.word,
		.measures = options->measures,
		.top = options->top,
		.verbose = options->verbose,
		.older_ns = (int64_t)options->older_ms * 1000000,
		.pointer = options->pointer,
		.only = options->only,
		.in_sections = options->nr_analyses > 1,
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
	if (!options->html.path)
		return html_check_target(verb.name, &options->html);
	if (options->json || options->nr_analyses || options->has_pointer || options->view.follow)
		return cli_usage(verb.name, "--html takes no --json, --analysis, --history and "
					    "--follow");
	if (options->by.n || options->measures || options->older_ms || options->only)
		return cli_usage(verb.name, "--html takes no --by, --measures, --older and --only");
	return CLI_OK;
}

static void set_analysis(struct options *o, const char *name)
{
	o->analyses[0] = name;
	o->analyses[1] = NULL;
	o->nr_analyses = 1;
}

/* --only is for calls of functions, whatever else was traced. */
static int choose_calls(struct options *o)
{
	const bool has_functions = has_analysis(o, "functions");

	if ((o->nr_analyses && !has_functions) || o->has_pointer)
		return cli_usage(verb.name, "--only is for calls of functions: leave out %s",
				 o->has_pointer ? "--history" : o->analyses[0]);
	if (o->by.n == 1 && o->by.by[0] == BY_FUNCTION)
		o->by.n = 0;
	if (!has_functions)
		set_analysis(o, "functions");
	return CLI_OK;
}

static int choose_history(struct options *o)
{
	const bool has_history = has_analysis(o, "history");

	if (o->has_pointer && o->nr_analyses && !has_history)
		return cli_usage(verb.name, "--history shows an address instead of -a %s",
				 o->analyses[0]);
	if (has_history && !o->has_pointer)
		return cli_usage(verb.name, "-a history takes the address of --history POINTER");
	if (!has_history && o->has_pointer)
		set_analysis(o, "history");
	return CLI_OK;
}

static bool is_of_all(const struct replay_view *view)
{
	return cli_time_is_all(&view->time) && !view->since_init && view->type == KMEM_TYPE_COUNT &&
	       event_choice_is_all(&view->choice);
}

/* Options that an analysis has no use for. */
static int check_chosen(const struct options *o)
{
	const bool of_groups = o->by.n || o->measures || o->older_ms;

	if (o->has_pointer && of_groups)
		return cli_usage(verb.name, "--history takes no --by, --measures and --older");
	if (o->nr_analyses && !o->has_pointer && !has_analysis(o, analysis_names[0]) && of_groups)
		return cli_usage(verb.name, "-a %s takes no --by, --measures and --older",
				 o->analyses[0]);
	if (has_analysis(o, "check") && !is_of_all(&o->view))
		return cli_usage(verb.name, "-a check is of a whole trace: it takes no --time, "
					    "--since, --event, --filter, --vcpu and --type");
	return CLI_OK;
}

/* What the options choose, without what suits the trace. */
static int choose_analyses(struct options *o)
{
	int ret = CLI_OK;

	if (o->nr_analyses == 1 && has_analysis(o, analysis_names[0]))
		o->nr_analyses = 0;
	if (o->by_syscall && !o->nr_analyses)
		set_analysis(o, "syscalls");
	if (o->only)
		ret = choose_calls(o);
	if (!ret)
		ret = choose_history(o);
	return ret ? ret : check_chosen(o);
}

/* Slabs are of caches, and of all objects in these. */
static int check_slabs(const struct options *o)
{
	const bool sorts = o->sort.measure == MEASURE_SLABS;
	const struct replay_view *view = &o->view;

	if (!sorts && !(o->measures & 1u << MEASURE_SLABS))
		return CLI_OK;
	if (o->by.n != 1 || o->by.by[0] != BY_CACHE)
		return cli_usage(verb.name, "%s slabs is for --by cache",
				 sorts ? "--sort" : "--measures");
	if (!event_choice_is_all(&view->choice) || view->type < KMEM_TYPE_COUNT)
		return cli_usage(verb.name,
				 "%s slabs: nothing says which slabs are of a part of the "
				 "objects; leave out --event, --filter, --type and --vcpu",
				 sorts ? "--sort" : "--measures");
	return CLI_OK;
}

/* Whether what was traced decides what is shown: calls have groups by function, too. */
static bool is_open(const struct options *o)
{
	const bool by_function = o->by.n == 1 && o->by.by[0] == BY_FUNCTION;

	return !o->nr_analyses && !o->measures && !o->older_ms && (!o->by.n || by_function);
}

/* NULL: what suits the trace. */
static const char *const *names_of(const struct options *o)
{
	static const char *const usual[] = {"overview", "kmem", NULL};

	if (is_open(o))
		return NULL;
	return o->nr_analyses ? o->analyses : usual;
}

int cmd_report(int argc, char **argv)
{
	struct options options = {
		.view = REPLAY_ALL, .sort.measure = MEASURE_LIVE, .top = UINT64_MAX};
	struct analysis_options shown;
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde report --help'");
	ret = check_html(&options);
	if (!ret)
		ret = choose_analyses(&options);
	if (!ret)
		ret = check_slabs(&options);
	if (ret)
		return ret;
	if (options.html.path)
		return html_report(verb.name, argv[optind], &options.view, &options.html);
	shown = options_of(&options, argv[optind]);
	return analysis_show(verb.name, names_of(&options), &options.view, &shown, options.json);
}
