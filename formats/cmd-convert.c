/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"
#include "formats/cmd.h"

#include <getopt.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/trace/convert.h"
#include "formats/report/trace-text.h"

static const char verb[] = "convert";

static const char help[] =
	"usage: sonde convert DIR --to FORMAT -o OUT\n"
	"\n"
	"Write the trace DIR once more, in another format, to the new directory OUT.\n"
	"\n"
	"  -t, --to FORMAT   ctf: Common Trace Format 1.8, for babeltrace2 and Trace Compass;\n"
	"                    kmemtrace: the ABI of 2008\n"
	"  -o, --output OUT  directory, new or empty\n"
	"  -h, --help        print this\n"
	"\n"
	"What is readable of a damaged trace is converted; to ctf, too, from ctf.\n";

struct options {
	const char *source, *output;
	int encoding; /* -1: not given */
};

static int set_encoding(struct options *options, const char *word)
{
	const char *nearest = text_nearest(word, trace_encoding_names);

	for (options->encoding = 0; trace_encoding_names[options->encoding]; options->encoding++) {
		if (!strcmp(word, trace_encoding_names[options->encoding]))
			return CLI_OK;
	}
	if (nearest)
		return cli_usage(verb, "--to: unknown format '%s'; did you mean '%s'?", word,
				 nearest);
	return cli_usage(verb, "--to takes ctf or kmemtrace, not '%s'", word);
}

static int apply_option(void *arg, int option, const char *value)
{
	struct options *options = arg;

	if (option == 't')
		return set_encoding(options, value);
	options->output = value;
	return CLI_OK;
}

static const struct option long_options[] = {
	{"to", required_argument, NULL, 't'},
	{"output", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct cli_syntax syntax = {verb, help, ":t:o:h", long_options, apply_option};

static int check_options(const struct options *options, int nr_operands)
{
	if (nr_operands != 1)
		return cli_usage(verb, "name one trace directory; see 'sonde convert --help'");
	if (options->encoding < 0)
		return cli_usage(verb, "convert to what? add --to ctf or --to kmemtrace");
	if (!options->output)
		return cli_usage(verb, "where to? add -o OUT");
	return CLI_OK;
}

static void print_result(const struct options *options, const struct convert_result *result)
{
	uint64_t lost = counters_lost(&result->losses.counters);

	fprintf(stderr, "sonde convert: %s in %s\n", text_number(result->records, "record").s,
		options->output);
	if (lost)
		fprintf(stderr, "sonde convert: %s had been lost in recording\n",
			text_number(lost, "event").s);
	if (result->cut)
		fprintf(stderr,
			"sonde convert: %s is not whole, the last records are missing; "
			"sonde check says more\n",
			options->source);
}

static int convert(const struct options *options)
{
	struct trace_reader *reader;
	struct convert_result result;
	struct error err;
	int ret = trace_reader_open(options->source, &reader, &err);

	if (ret)
		return cli_error(verb, &err);
	ret = convert_trace(reader, options->output, (enum trace_encoding)options->encoding,
			    &result, &err);
	trace_reader_close(reader);
	if (ret)
		return cli_error(verb, &err);
	print_result(options, &result);
	return CLI_OK;
}

int cmd_convert(int argc, char **argv)
{
	struct options options = {.encoding = -1};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	ret = check_options(&options, argc - optind);
	if (ret)
		return ret;
	options.source = argv[optind];
	return convert(&options);
}
