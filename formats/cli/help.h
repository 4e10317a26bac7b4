/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CLI_HELP_H
#define SONDE_FORMATS_CLI_HELP_H

#include <stddef.h>

enum { HELP_WIDTH = 100 }; /* characters of the lines that texts are written in */

/*
 * Print a text to standard output, and a newline unless it ends with one. Its first line begins at
 * `column`, where the output is, and so do the others. A narrower terminal has lines of its own
 * width, but for what begins with a blank, whose lines only go on in further ones.
 */
void help_print(const char *text, size_t column);

#endif
