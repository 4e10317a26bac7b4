/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <string.h>
#include "formats/cli.h"
#include "formats/convert.h"
#include "formats/trace-text.h"

static const char verb[] = "convert";

static const char usage[] =
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
	bool help;
};

static int set_encoding(struct options *options, const char *word)
{
	const char *nearest = cli_nearest(word, trace_encoding_names);

	for (options->encoding = 0; trace_encoding_names[options->encoding]; options->encoding++) {
		if (!strcmp(word, trace_encoding_names[options->encoding]))
			return CLI_OK;
	}
	if (nearest)
		return cli_usage(verb, "--to: unknown format '%s'; did you mean '%s'?", word,
				 nearest);
	return cli_usage(verb, "--to takes ctf or kmemtrace, not '%s'", word);
}

static int apply_option(struct options *options, int c, const char *word)
{
	switch (c) {
	case 't':
		return set_encoding(options, optarg);
	case 'o':
		options->output = optarg;
		return CLI_OK;
	case 'h':
		options->help = true;
		return CLI_OK;
	case ':':
		return cli_usage(verb, "%s needs a value; see sonde convert --help", word);
	}
	return cli_usage(verb, "unknown option %s; see sonde convert --help", word);
}

static int check_options(const struct options *options, int nr_operands)
{
	if (nr_operands != 1)
		return cli_usage(verb, "name one trace directory; see sonde convert --help");
	if (options->encoding < 0)
		return cli_usage(verb, "convert to what? add --to ctf or --to kmemtrace");
	if (!options->output)
		return cli_usage(verb, "where to? add -o OUT");
	return CLI_OK;
}

static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"to", required_argument, NULL, 't'},
		{"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c, ret = CLI_OK;

	opterr = 0;
	optind = 0;
	while (!ret && (c = getopt_long(argc, argv, ":t:o:h", longs, NULL)) != -1)
		ret = apply_option(options, c, argv[optind - 1]);
	if (!ret && !options->help)
		ret = check_options(options, argc - optind);
	if (!ret && !options->help)
		options->source = argv[optind];
	return ret;
}

static void print_result(const struct options *options, const struct convert_result *result)
{
	const struct trace_losses *losses = &result->losses;

	fprintf(stderr, "sonde convert: %s in %s\n", text_number(result->records, "record").s,
		options->output);
	if (losses->overruns || losses->lost)
		fprintf(stderr, "sonde convert: %s had been lost in recording\n",
			text_number(losses->overruns + losses->lost, "event").s);
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
	int ret = parse_options(argc, argv, &options);

	if (ret)
		return ret;
	if (options.help) {
		fputs(usage, stdout);
		return text_flush(verb);
	}
	return convert(&options);
}
