/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/text.h"

enum { LINE_SIZE = 1024 };

int cli_error(const char *verb, const struct error *err)
{
	struct error shown = *err;

	clean_line(shown.text);
	fprintf(stderr, "sonde %s: %s", verb, shown.text);
	if (err->has_address)
		fprintf(stderr, " (at 0x%" PRIx64 ")", err->address);
	fputc('\n', stderr);
	return CLI_FAILED;
}

int cli_usage(const char *verb, const char *fmt, ...)
{
	char text[LINE_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	clean_line(text);
	fprintf(stderr, "sonde %s: %s\n", verb, text);
	return CLI_USAGE;
}

int cli_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value;
	int ret = text_parse_u64(text, max, &value);

	if (ret)
		return ret;
	if (value < min)
		return -ERANGE;
	*out = value;
	return 0;
}

enum { MAX_OPTIONS = 64 };

int cli_unknown_option(const char *verb, const char *word, const struct option *options)
{
	const char *names[MAX_OPTIONS + 1], *near;
	size_t n = 0;

	for (; n < MAX_OPTIONS && options[n].name; n++) {
		if (optopt && options[n].val == optopt)
			return cli_usage(verb, "--%s takes no value", options[n].name);
		names[n] = options[n].name;
	}
	names[n] = NULL;
	/* getopt_long() sets optopt to 0 at an unknown long option. */
	if (optopt)
		return cli_usage(verb, "unknown option -%c; see 'sonde %s --help'", optopt, verb);
	near = text_nearest(word + 2, names);
	if (!near)
		return cli_usage(verb, "unknown option %s; see 'sonde %s --help'", word, verb);
	return cli_usage(verb, "unknown option %s: did you mean --%s?", word, near);
}

int cli_parse_options(const struct cli_syntax *syntax, int argc, char **argv, void *options)
{
	int option, ret = CLI_OK;

	optind = 0; /* start afresh, whatever was parsed before */
	opterr = 0;
	while (!ret &&
	       (option = getopt_long(argc, argv, syntax->shorts, syntax->longs, NULL)) != -1) {
		if (option == 'h') {
			fputs(syntax->help, stdout);
			return 1 + cli_flush(syntax->verb);
		}
		if (option == '?')
			ret = cli_unknown_option(syntax->verb, argv[optind - 1], syntax->longs);
		else if (option == ':')
			ret = cli_usage(syntax->verb, "%s needs a value; see 'sonde %s --help'",
					argv[optind - 1], syntax->verb);
		else
			ret = syntax->apply(options, option, optarg);
	}
	return ret ? 1 + ret : 0;
}

int cli_parse_choice(const char *verb, const char *option, const char *text, const char *first,
		     const char *second, bool *is_second)
{
	*is_second = !strcmp(text, second);
	if (*is_second || !strcmp(text, first))
		return 0;
	return cli_usage(verb, "%s takes %s or %s, not '%s'", option, first, second, text);
}

int cli_flush(const char *verb)
{
	struct error err;

	if (!fflush(stdout) && !ferror(stdout))
		return CLI_OK;
	error_set(&err, EIO, "cannot write to standard output");
	return cli_error(verb, &err);
}

bool cli_colour(FILE *stream)
{
	const char *no_colour = getenv("NO_COLOR");

	return !(no_colour && *no_colour) && isatty(fileno(stream));
}
