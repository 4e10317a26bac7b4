/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_PARTS_H
#define SONDE_FORMATS_REPORT_PARTS_H

#include <stdbool.h>
#include <stdio.h>
#include "formats/base/text.h"

/* Lines that, on a terminal, go on in the next one where they do not fit. */

/* Print a text, broken at blanks, and a newline. Of the first line `used` characters are taken;
 * further ones are indented. */
void line_wrap(FILE *out, size_t used, size_t indent, const char *text);
/* The same behind a label in a column of `indent` characters. */
void line_print(FILE *out, int indent, const char *label, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Print a line about a name, which is cut (name_cut()) so that what is before and behind it fits.
 */
void line_print_name(FILE *out, const char *begin, const char *name, const char *end);

/* "begin: an item 5 B, another one 3 B": as many as fit, elsewhere than on a terminal in 132
 * columns. There the first one is always in it; on a terminal its name is cut (name_cut()) if need
 * be. The newline is the caller's. */
struct line_items {
	FILE *out;
	size_t used, width, n;
	bool is_terminal;
};
void line_begin_items(struct line_items *line, FILE *out, const char *begin);
void line_add_item(struct line_items *line, const char *name, const char *end);

/* A line of parts, "5 records, 2 vCPUs, 3.500 s". Zeroed, it is empty. */
enum { PARTS_MAX = 12 };
struct parts {
	struct text all[PARTS_MAX];
	size_t n;
};

/* What is beyond PARTS_MAX is left out. */
void parts_add(struct parts *parts, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Print them behind a label in a column of `indent` characters. No part is broken. */
void parts_print(const struct parts *parts, FILE *out, const char *label, int indent);

#endif
