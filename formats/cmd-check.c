/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <errno.h>
#include <getopt.h>
#include "formats/report/check-text.h"
#include "formats/analysis/check.h"
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

static const char verb[] = "check";

static const char help[] = "usage: sonde check [--json] DIR\n"
			   "\n"
			   "Look for errors in the trace DIR. Exit status 1 if there are any.\n"
			   "\n"
			   "  -j, --json  print JSON\n"
			   "  -h, --help  print this\n";

struct options {
	bool json;
};

static const struct option long_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int apply_option(void *arg, int option, const char *value)
{
	(void)option;
	(void)value;
	((struct options *)arg)->json = true;
	return CLI_OK;
}

static const struct cli_syntax syntax = {verb, help, ":jh", long_options, apply_option};

static struct check *create_check(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	return check_create(sidecar && sidecar->info.from_first_allocation,
			    counters_are_lossy(&losses.counters));
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
		ret = text_print_json(verb, check_json(check, reader));
	} else {
		check_print_text(stdout, check, reader);
		ret = cli_flush(verb);
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
	ret = ret ? cli_error(verb, &err) : print_check(options, check, reader);
	check_destroy(check);
	trace_reader_close(reader);
	return ret;
}

int cmd_check(int argc, char **argv)
{
	struct options options = {0};
	int ret = cli_parse_options(&syntax, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb, "name one trace directory; see 'sonde check --help'");
	return check_trace(&options, argv[optind]);
}
