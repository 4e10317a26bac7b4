/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CTL_DOCUMENT_H
#define SONDE_VMM_CTL_DOCUMENT_H

#include <jansson.h>
#include "formats/base/error.h"

/* What a guest's monitor tells now, a trace has as a file when it has ended, and a verb prints with
 * --json. */
struct document_kind {
	const char *query; /* the monitor's command */
	const char *file;  /* in a trace */
	const char *what;  /* "profile" */
	const char *spec;  /* what records it: "profile:..." */
};

/* Of a source that the user has named: a monitor's socket, a trace, or a file. None is trusted.
 * *out is a new reference. -errno with one line for the user. */
int document_read(const struct document_kind *kind, const char *source, json_t **out,
		  struct error *err);

#endif
