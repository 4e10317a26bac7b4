/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/text.h"

enum { LINE_SIZE = 1024, SHOWN = 72 /* characters of a text with a caret */ };

static bool begins_character(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80; /* UTF-8 */
}

/* A part of `text`, and a caret below the character at `column`, from 1; 0: there is no place. */
static void show_place(const char *text, unsigned int column)
{
	size_t at = column ? column - 1 : 0, from = at > SHOWN / 2 ? at - SHOWN / 2 : 0;
	char shown[4 * SHOWN];
	int width = 2;

	if (!column || at > strlen(text))
		return;
	if (strlen(text) <= SHOWN)
		from = 0;
	while (from && !begins_character(text[from]))
		from--;
	for (size_t i = from; i < at; i++)
		width += begins_character(text[i]);
	snprintf(shown, sizeof(shown), "%.*s", SHOWN, text + from);
	clean_line(shown);
	fprintf(stderr, "  %s\n%*s^\n", shown, width, "");
}

int cli_error(const char *verb, const struct error *err)
{
	struct error shown = *err;

	clean_line(shown.text);
	fprintf(stderr, "sonde %s: %s", verb, shown.text);
	if (err->has_address)
		fprintf(stderr, " (at 0x%" PRIx64 ")", err->address);
	fputc('\n', stderr);
	if (err->parsed)
		show_place(err->parsed, err->column);
	return CLI_FAILED;
}

static void print_line(const char *verb, const char *fmt, va_list ap)
{
	char text[LINE_SIZE];

	vsnprintf(text, sizeof(text), fmt, ap);
	clean_line(text);
	fprintf(stderr, "sonde %s: %s\n", verb, text);
}

int cli_usage(const char *verb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(verb, fmt, ap);
	va_end(ap);
	return CLI_USAGE;
}

void cli_note(const char *verb, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(verb, fmt, ap);
	va_end(ap);
}

int cli_usage_of(const char *verb, const char *text, const struct error *err)
{
	cli_usage(verb, "%s", err->text);
	show_place(text, err->column);
	return CLI_USAGE;
}

int cli_usage_error(const char *verb, const struct error *err)
{
	if (err->parsed)
		return cli_usage_of(verb, err->parsed, err);
	return cli_usage(verb, "%s", err->text);
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

int cli_flush(const char *verb)
{
	struct error err;
	int code;

	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return CLI_OK;
	code = errno; /* none if only an earlier write has failed */
	error_set(&err, code ? code : EIO, "cannot write to standard output%s%s", code ? ": " : "",
		  code ? strerror(code) : "");
	return cli_error(verb, &err);
}

bool cli_colour(FILE *stream)
{
	const char *no_colour = getenv("NO_COLOR");

	return !(no_colour && *no_colour) && isatty(fileno(stream));
}
