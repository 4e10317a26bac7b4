/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <errno.h>
#include <getopt.h>
#include "formats/check-print.h"
#include "formats/check.h"
#include "formats/cli.h"
#include "formats/trace-text.h"

static const char usage[] = "usage: sonde check [--json] DIR\n"
			    "\n"
			    "Look for errors in the trace DIR. Exit status 1 if there are any.\n"
			    "\n"
			    "  -j, --json  print JSON\n"
			    "  -h, --help  print this\n";

struct options {
	bool json, help;
};

static int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	opterr = 0;
	optind = 0;
	while ((c = getopt_long(argc, argv, "jh", longs, NULL)) != -1) {
		if (c == '?')
			return cli_usage("check", "unknown option %s; see sonde check --help",
					 argv[optind - 1]);
		options->json = options->json || c == 'j';
		options->help = options->help || c == 'h';
	}
	if (!options->help && optind != argc - 1)
		return cli_usage("check", "name one trace directory; see sonde check --help");
	return CLI_OK;
}

static struct check *create_check(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	return check_create(sidecar && sidecar->info.from_first_allocation,
			    losses.overruns || losses.lost || losses.pauses || losses.yields ||
				    losses.samplings);
}

static int check_all(struct trace_reader *reader, struct check *check, struct error *err)
{
	struct trace_event event;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		if (check_add(check, &event, trace_reader_cut(reader)))
			return error_set(err, ENOMEM, "out of memory");
	}
	check_streams(check, reader);
	return ret;
}

static int print_check(const struct options *options, const struct check *check,
		       const struct trace_reader *reader)
{
	int ret;

	if (options->json) {
		ret = text_print_json("check", check_json(check, reader));
	} else {
		check_print_text(stdout, check, reader);
		ret = text_flush("check");
	}
	return ret ? ret : check_count(check, CHECK_ERROR) ? CLI_FAILED : CLI_OK;
}

static int check_trace(const struct options *options, const char *dir)
{
	struct trace_reader *reader = NULL;
	struct check *check = NULL;
	struct error err;
	int ret = trace_reader_open(dir, &reader, &err);

	if (!ret) {
		check = create_check(reader);
		ret = check ? check_all(reader, check, &err)
			    : error_set(&err, ENOMEM, "out of memory");
		if (ret)
			error_prefix(&err, "%s: ", dir);
	}
	ret = ret ? cli_error("check", &err) : print_check(options, check, reader);
	check_destroy(check);
	trace_reader_close(reader);
	return ret;
}

int cmd_check(int argc, char **argv)
{
	struct options options = {0};
	int ret = parse_options(argc, argv, &options);

	if (ret)
		return ret;
	if (options.help) {
		fputs(usage, stdout);
		return text_flush("check");
	}
	return check_trace(&options, argv[optind]);
}
