/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_DIFF_DIFF_H
#define SONDE_FORMATS_DIFF_DIFF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include "formats/analysis/replay.h"
#include "formats/groups/measure.h"

/* What changed between two traces, or two parts of one. */

struct diff_options {
	const char *dirs[2]; /* may be the same */
	struct grouping by;
	size_t top; /* rows to show; 0: all */
};

/* Print it, or one line that says what went wrong. Returns an exit status. */
int diff_show(const char *verb, const struct replay_view views[2],
	      const struct diff_options *options, bool json);

/* What it prints as JSON; NULL after a line, or without memory. Returns an exit status. */
int diff_json_of(const char *verb, const struct replay_view views[2],
		 const struct diff_options *options, json_t **out);

#endif
