/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HTML_HTML_H
#define SONDE_FORMATS_HTML_HTML_H

#include <stdbool.h>
#include "formats/diff/diff.h"
#include "formats/analysis/replay.h"

/*
 * Reports for a browser: a file each, which needs no other file and no network. It has the data as
 * JSON, and a program (page.js) that shows them.
 *
 * Each function writes the file `path`, as export_file_create() takes it, or prints one line that
 * says what went wrong. Returns an exit status.
 */
struct html_target {
	const char *path; /* NULL: none is written */
	bool replace;
};

/* The rows of --html and --force, which store into a struct html_target. */
struct cli_option;
extern const struct cli_option html_options[];
/* Returns CLI_OK, or CLI_USAGE after a line: --force without --html. */
int html_check_target(const char *verb, const struct html_target *target);

/* What is in a trace. */
int html_report(const char *verb, const char *dir, const struct replay_view *view,
		const struct html_target *target);

/* What changed between two traces. */
int html_diff(const char *verb, const struct replay_view views[2],
	      const struct diff_options *options, const struct html_target *target);

#endif
