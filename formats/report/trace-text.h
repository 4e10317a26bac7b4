/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_TRACE_TEXT_H
#define SONDE_FORMATS_REPORT_TRACE_TEXT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "formats/trace/sidecar.h"
#include "formats/trace/reader.h"

/* "kmalloc-64" or "cache 7", or for ANALYSIS_NO_CACHE + type "(kmalloc)". */
struct text text_cache(const struct sidecar *sidecar, uint64_t key);

/*
 * Print lines "Lost  ..." about all that is missing from a trace that was read to its end, each
 * with the label in a column of `indent`; one that says "none" if nothing is.
 */
void text_print_losses(FILE *out, const struct trace_reader *reader, int indent);

/* An array of {"file", "records", "expected_records", "ignored_bytes"}, one for each cut stream. */
json_t *text_json_cuts(const struct trace_reader *reader);

/* Print a JSON value with a newline. Consumes it. Returns an exit status; NULL is a failure. */
int text_print_json(const char *verb, json_t *root);

#endif
