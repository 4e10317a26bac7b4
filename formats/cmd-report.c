/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"
#include "formats/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"
#include "formats/report/report.h"
#include "formats/report/trace-text.h"

enum { DEFAULT_TOP = 25 }; /* in text: a screenful */

static const char verb[] = "report";

static const char help[] =
	"usage: sonde report [OPTION]... DIR\n"
	"\n"
	"Show who allocated how much memory in the trace DIR.\n"
	"\n"
	"  -b, --by WHAT     group by callsite (default), cache, size or pointer\n"
	"  -s, --sort KEY    order by bytes (default: allocated ones), requested, hits,\n"
	"                    fragmentation, cross-cpu or live\n"
	"  -n, --top N       show the first N groups; 0: all. Default: 25, with --json all\n"
	"  -t, --type TYPE   only objects of kmalloc, cache or pages\n"
	"  -j, --json        print JSON\n"
	"  -h, --help        print this\n";

static const char *const by_names[] = {"callsite", "cache", "size", "pointer", NULL};
static const char *const sort_names[] = {"hits",      "bytes", "requested", "fragmentation",
					 "cross-cpu", "live",  NULL};
static const char *const type_names[] = {"kmalloc", "cache", "pages", NULL};

struct options {
	int by, sort, type;
	bool json, has_top;
	uint64_t top;
};

/* Index of a word in names; -1 after telling the user. */
static int choose(const char *option, const char *word, const char *const *names)
{
	const char *nearest;

	for (int i = 0; names[i]; i++) {
		if (!strcmp(word, names[i]))
			return i;
	}
	nearest = text_nearest(word, names);
	if (nearest)
		cli_usage(verb, "--%s: unknown word '%s'; did you mean '%s'?", option, word,
			  nearest);
	else
		cli_usage(verb, "--%s: unknown word '%s'; see 'sonde report --help'", option, word);
	return -1;
}

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
	case 'b':
		options->by = choose("by", value, by_names);
		return options->by < 0 ? CLI_USAGE : CLI_OK;
	case 's':
		options->sort = choose("sort", value, sort_names);
		return options->sort < 0 ? CLI_USAGE : CLI_OK;
	case 't':
		options->type = choose("type", value, type_names);
		return options->type < 0 ? CLI_USAGE : CLI_OK;
	case 'n':
		return set_top(options, value);
	default:
		options->json = true;
		return CLI_OK;
	}
}

static const struct option long_options[] = {
	{"by", required_argument, NULL, 'b'},
	{"sort", required_argument, NULL, 's'},
	{"top", required_argument, NULL, 'n'},
	{"type", required_argument, NULL, 't'},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct cli_syntax syntax = {verb, help, ":b:s:n:t:jh", long_options, apply_option};

static int analyse(struct trace_reader *reader, struct analysis *analysis, struct error *err)
{
	struct trace_event event;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		if (analysis_add(analysis, &event))
			return error_set(err, ENOMEM, "out of memory");
	}
	return ret;
}

static int print_report(const struct options *options, const struct trace_reader *reader,
			struct analysis *analysis)
{
	struct report report = {
		.reader = reader,
		.totals = analysis_totals(analysis),
		.by = (enum analysis_by)options->by,
	};
	uint64_t top = options->has_top ? options->top : options->json ? 0 : DEFAULT_TOP;

	report.nr_groups =
		analysis_sort(analysis, (enum analysis_sort)options->sort, &report.groups);
	report.nr_shown = top && top < report.nr_groups ? (size_t)top : report.nr_groups;
	if (options->json)
		return text_print_json(verb, report_json(&report));
	report_print_text(stdout, &report);
	return cli_flush(verb);
}

static int report_trace(const struct options *options, const char *dir)
{
	struct trace_reader *reader = NULL;
	struct analysis *analysis = NULL;
	struct error err;
	int ret = trace_reader_open(dir, &reader, &err);

	if (!ret) {
		analysis = analysis_create((enum analysis_by)options->by, options->type);
		ret = analysis ? analyse(reader, analysis, &err)
			       : error_set(&err, ENOMEM, "out of memory");
		if (ret)
			error_prefix(&err, "%s: ", dir);
	}
	ret = ret ? cli_error(verb, &err) : print_report(options, reader, analysis);
	analysis_destroy(analysis);
	trace_reader_close(reader);
	return ret;
}

int cmd_report(int argc, char **argv)
{
	struct options options = {.sort = ANALYSIS_SORT_BYTES, .type = ANALYSIS_ALL_TYPES};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb, "name one trace directory; see 'sonde report --help'");
	return report_trace(&options, argv[optind]);
}
