/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_SOURCE_H
#define SONDE_VMM_TOP_SOURCE_H

#include "vmm/top/model.h"

/*
 * Where samples come from: profiled functions from the monitor (query-profile), all else from the
 * trace that is being recorded, whose heap is kept.
 */
struct top_source;

/* Connect to the monitor `socket`. `dir` is the trace; NULL: the one that the monitor names. Errors
 * as qmp_connect(). */
int top_source_open(const char *socket, const char *dir, struct top_source **out,
		    struct error *err);
/* NULL-safe. */
void top_source_close(struct top_source *source);

/*
 * Read what has come since, and take samples of all tables. What cannot be read is missing from its
 * table, with the reason. -errno: the monitor is gone; the tables have what the trace says.
 */
int top_source_sample(struct top_source *source, struct top_model *model, struct error *err);

/* The chains of another call site are wanted: fill their table with what was read so far. */
void top_source_put_chains(struct top_source *source, struct top_model *model);

#endif
