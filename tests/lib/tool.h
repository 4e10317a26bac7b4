/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_TOOL_H
#define SONDE_TESTS_LIB_TOOL_H

#include <stdbool.h>

/* Other programs, as judges of what is written for them. */

/*
 * Run a shell command. Returns its exit status, 127 if it is not there, 128 if a signal ended it;
 * *output, unless NULL, is what it printed on standard output, to be freed. Aborts without memory.
 */
int tool_run(char **output, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Write a file for a program, as source for a compiler. Aborts if that fails. */
void tool_write(const char *folder, const char *name, const char *text);

/* Whether there is such a program. */
bool tool_exists(const char *name);

#endif
