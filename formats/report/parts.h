/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_PARTS_H
#define SONDE_FORMATS_REPORT_PARTS_H

#include <stdio.h>
#include "formats/base/text.h"

/* A line of parts, "5 records, 2 vCPUs, 3.500 s". Zeroed, it is empty. */
enum { PARTS_MAX = 12 };
struct parts {
	struct text all[PARTS_MAX];
	size_t n;
};

/* What is beyond PARTS_MAX is left out. */
void parts_add(struct parts *parts, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Print them behind a label in a column of `indent` characters. On a terminal, parts that do not
 * fit into the line go on in the next one. */
void parts_print(const struct parts *parts, FILE *out, const char *label, int indent);

#endif
