/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HTML_CALLS_H
#define SONDE_FORMATS_HTML_CALLS_H

#include "formats/base/error.h"
#include "formats/export/file.h"
#include "formats/trace/reader.h"

/*
 * How often functions were called, and for how long, from the events of the graph tracer; and
 * system calls, from those of the syscalls tracer.
 */
struct call_times;

/* NULL without memory. The reader outlives the result. */
struct call_times *call_times_create(const struct trace_reader *reader);
/* NULL-safe. */
void call_times_destroy(struct call_times *times);

/* In merged order; events of other tracers are passed over. Returns 0 or -errno. */
int call_times_add(struct call_times *times, const struct event *event, struct error *err);
/* The trace has no more events. -ENOMEM. */
int call_times_finish(struct call_times *times);

/* The members "calls" and "syscalls" of the page's data, with a comma before each. -ENOMEM. */
int call_times_put(const struct call_times *times, struct export_file *file);

#endif
