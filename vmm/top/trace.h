/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_TRACE_H
#define SONDE_VMM_TOP_TRACE_H

#include "vmm/top/model.h"

/* A trace while it is recorded: a pass over it that goes on with what comes. */
struct top_trace;

/* -errno as trace_reader_open(). */
int top_trace_open(const char *dir, struct top_trace **out, struct error *err);
/* NULL-safe. */
void top_trace_close(struct top_trace *trace);

/*
 * Read what has come since, and fill the tables, but for that of profiled functions. Takes long for
 * the first time, if the trace is; likewise when a tracer was added, as all of it is read again.
 * -ENOMEM, and errors of reading.
 */
int top_trace_sample(struct top_trace *trace, struct top_model *model, struct error *err);
/* Fill the table of the model's call chains, without reading more. -ENOMEM. */
int top_trace_put_chains(struct top_trace *trace, struct top_model *model, struct error *err);

#endif
