/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_TRACE_TEXT_H
#define SONDE_FORMATS_REPORT_TRACE_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/text.h"
#include "formats/cli/options.h"
#include "formats/trace/sidecar.h"
#include "formats/trace/reader.h"

/*
 * How a trace as a whole is shown. All functions print lines with a label in a column of
 * `indent` characters.
 */

/* What was read of a trace. */
struct trace_window {
	uint64_t records;
	int64_t first_ns, last_ns; /* the time that results are of, if there are any */
	bool has_begin; /* what it is of begins with the trace, and nothing of that was left out */
};

/* Events that are not in the time that a user chose, as far as they were read. */
struct trace_outside {
	uint64_t before;
	int64_t first_ns, last_ns; /* of those before: the smallest and greatest time */
	bool is_after;             /* the time has an end, and an event is behind it: */
	int64_t after_ns;
};
void trace_outside_before(struct trace_outside *outside, int64_t ns);
void trace_outside_after(struct trace_outside *outside, int64_t ns);

/* The time that a user chose, and how. */
struct chosen_time {
	struct cli_time_range range;
	const char *option; /* that the range is of: "--time" */
	bool since_init;
	int64_t from_ns; /* of both; INT64_MAX: init has not begun yet */
};
/* "no event is in the time that --time chooses: the first is at 5.123 s". Some event is outside. */
struct text text_outside(const struct trace_outside *outside, const struct chosen_time *time);

/* "Guest", "Trace" and, of a copied part, "Part"; if there is something to say, "Ended as" and
 * "Format". */
void text_print_head(FILE *out, const struct trace_reader *reader,
		     const struct trace_window *window, int indent);

/* "2.796", whole milliseconds of the trace clock: the last one before `ns`, or the next one. */
struct text text_clock_before(int64_t ns);
struct text text_clock_after(int64_t ns);

/* "Left out" and "Recording": the counters that are about no loss. They are of the whole trace,
 * which is said where other figures are of a part. */
void text_print_recording(FILE *out, const struct trace_reader *reader, bool is_part, int indent);

/*
 * "Lost", a line for each cause, of a trace that was read to its end; "none" if nothing is lost.
 * "Now" if the trace is still being written, and "Limits" if its records have no checksums.
 */
void text_print_losses(FILE *out, const struct trace_reader *reader, int indent);
/* The same, and nothing if it is known that nothing is lost. */
void text_print_losses_if_any(FILE *out, const struct trace_reader *reader, int indent);

/* "up to 7 events are missing", of a trace that was read to its end; "" if none is. */
struct text text_missing(const struct trace_reader *reader);
/* "Bound", a line: the same, of what consists of events; nothing if none is missing. */
void text_print_missing(FILE *out, const struct trace_reader *reader, const char *what, int indent);

/* "Untraced", the functions whose events are missing from the trace, a line for each reason. */
void text_print_gaps(FILE *out, const struct trace_reader *reader, int indent);

/* "0xffff8b4041048380 in text of babeltrace2: grep -i 8b4041048380", a line: babeltrace2 prints of
 * an address what bits a record has of it, in capital letters. */
void text_print_search(FILE *out, const char *label, uint64_t address, int indent);

/*
 * Add all counters, "losses_known", "losses_unknown" (why, unless they are known), "complete",
 * "damaged", "checksums", "recording", "gaps" and "cut" to an object. Returns 0, or -1 without
 * memory.
 */
int text_json_losses(json_t *root, const struct trace_reader *reader);

/* Print a JSON value with a newline, and release it. Returns an exit status; NULL is a failure. */
int text_print_json(const char *verb, json_t *root);

#endif
