/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_CHECK_TEXT_H
#define SONDE_FORMATS_REPORT_CHECK_TEXT_H

#include <jansson.h>
#include <stdio.h>
#include "formats/analysis/check.h"
#include "formats/trace/reader.h"

/* Number of items of a severity over all classes. */
uint64_t check_count(const struct check *check, enum check_severity severity);

/* The findings about a trace that was read to its end. */
void check_print_text(FILE *out, const struct check *check, const struct trace_reader *reader);

/* The object of sonde-check(1), owned by the caller; NULL: no memory. */
json_t *check_json(const struct check *check, const struct trace_reader *reader);

#endif
