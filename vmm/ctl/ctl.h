/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CTL_CTL_H
#define SONDE_VMM_CTL_CTL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/* A command of `sonde ctl`, typed by a person, as a QMP command. */
struct qmp_command {
	const char *verb; /* borrowed from the words or static */
	json_t *args;     /* new reference, or NULL */
};

enum { QMP_COMMAND_MAX_WORDS = 32 };

/*
 * Cut a line into words at white space, in place; 'single' and "double" quotes keep it together.
 * Returns how many, -E2BIG beyond QMP_COMMAND_MAX_WORDS, or -EINVAL for an open quote.
 */
int qmp_command_split(char *line, char **words, struct error *err);

/*
 * A short form, such as "trace on kmem" (qmp_command_short()), or any verb with key=value
 * arguments. A value is a boolean, an integer (decimal or 0x), JSON if it begins with [ { or ",
 * else a string. An integer beyond 63 bits is a string, too. `n` is at least 1. -EINVAL says which
 * word is wrong.
 */
int qmp_command_parse(char *const *words, size_t n, struct qmp_command *out, struct error *err);

/* What is typed for a verb that has a short form: "trace on [SPEC...]". NULL if it has none. */
const char *qmp_command_short(const char *verb);

/*
 * Print a verb's reply for people; an empty object prints nothing. The peer may send anything:
 * control characters are replaced, and missing keys are printed as 0 or "?".
 */
void qmp_show(FILE *out, const char *verb, const json_t *result);

/* A number of a reply; 0 if it is missing, or no integer. */
uint64_t qmp_count_at(const json_t *object, const char *key);

/* Print the reply to query-commands as a list of what can be typed, one line for each. */
void qmp_show_help(FILE *out, const json_t *commands);

/* Print the reply to query-trace in one line, after trace-start or trace-stop. */
void qmp_show_switch(FILE *out, const json_t *trace);
/* Print what the reply to trace-add, -remove or -set says: notes on the functions; how many sites
 * were switched, and how long that took. */
void qmp_show_change(FILE *out, const json_t *reply);

#endif
