/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HTML_CALLS_H
#define SONDE_FORMATS_HTML_CALLS_H

#include <stddef.h>
#include "formats/base/error.h"
#include "formats/trace/reader.h"

/* How often functions were called, and for how long, from the events of the graph tracer. */
struct function_calls {
	const struct trace_instance *instance;
	uint64_t ip;               /* where it begins */
	uint64_t calls;            /* that have begun */
	uint64_t seen;             /* of these, that have returned; the times are theirs */
	uint64_t total_ns, max_ns; /* from entry to return, sleep and calls of others included */
};

struct call_times;

/* NULL without memory. The reader outlives the result. */
struct call_times *call_times_create(const struct trace_reader *reader);
/* NULL-safe. */
void call_times_destroy(struct call_times *times);

/* In merged order; events of other tracers are passed over. Returns 0 or -errno. */
int call_times_add(struct call_times *times, const struct event *event, struct error *err);

/* In the order of their first call. */
size_t call_times_count(const struct call_times *times);
const struct function_calls *call_times_get(const struct call_times *times, size_t index);

#endif
