/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CLI_CLI_H
#define SONDE_FORMATS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/*
 * What every verb of the command line shares: how errors are shown, exit statuses, numbers.
 * A verb is a function `int cmd_<verb>(int argc, char **argv)` in <folder>/cmd-<verb>.c, argv[0]
 * being the verb's name; it returns the exit status.
 */
enum cli_status {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
};

#define SONDE_VERSION "0.1.0"

/* Print "sonde <verb>: <text>[ (at 0x...)]" as one line on stderr, and below it the place in a text
 * that the error has, as cli_usage_of() does. Returns CLI_FAILED. */
int cli_error(const char *verb, const struct error *err);

/* Print "sonde <verb>: <formatted>" as one line on stderr. Returns CLI_USAGE. */
int cli_usage(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same of what is no error: what was asked for is there, and there is something to say of it.
 */
void cli_note(const char *verb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As cli_usage(), for an error in `text`, which the user has typed. If the error has a column, that
 * part of the text is printed below, and a caret below the character. */
int cli_usage_of(const char *verb, const char *text, const struct error *err);

/* The same for an error of the command line, with the place in the text that the error has, if any.
 */
int cli_usage_error(const char *verb, const struct error *err);

/* Parse a decimal number within [min, max]. Returns 0, or -EINVAL / -ERANGE. */
int cli_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* After a verb's output: CLI_OK, or CLI_FAILED if it could not be written, which it says. */
int cli_flush(const char *verb);

/* Whether to use colour on this stream: a terminal, and NO_COLOR unset (https://no-color.org). */
bool cli_colour(FILE *stream);

#endif
