/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_REPORT_H
#define SONDE_FORMATS_REPORT_REPORT_H

#include <jansson.h>
#include <stdio.h>
#include "formats/analysis/analysis.h"
#include "formats/trace/reader.h"

/* What `sonde report` shows of an analysed trace. */
struct report {
	const struct trace_reader *reader; /* read to its end */
	const struct analysis_totals *totals;
	const struct analysis_group *groups; /* sorted */
	size_t nr_groups;
	size_t nr_shown; /* at most nr_groups: the first ones */
	enum analysis_by by;
};

/* The table of sonde-report(1), and what stands above it. Errors are left to ferror(). */
void report_print_text(FILE *out, const struct report *report);

/* The object of sonde-report(1), owned by the caller; NULL: no memory. */
json_t *report_json(const struct report *report);

#endif
