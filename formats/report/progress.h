/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_PROGRESS_H
#define SONDE_FORMATS_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/trace/reader.h"

/* How far a pass over a trace is, on standard error if that is a terminal: rate and time left. */
struct progress {
	uint64_t events, expected; /* expected 0: nothing says how many there are */
	uint64_t begun_ms, shown_ms;
	bool is_on;
};

/* Before a fresh reader's first event. */
void progress_begin(struct progress *progress, const struct trace_reader *reader);
void progress_show(struct progress *progress);
/* Remove the line. */
void progress_end(struct progress *progress);

/* For each event, or some of them. */
static inline void progress_count(struct progress *progress, size_t events)
{
	const uint64_t before = progress->events;

	progress->events += events;
	if ((before ^ progress->events) >> 16 && progress->is_on)
		progress_show(progress);
}

#endif
