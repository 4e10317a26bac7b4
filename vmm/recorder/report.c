/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the user is told: who cannot be traced, how it went. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include "vmm/recorder/internal.h"

void run_trace_tell_refused(const struct run_trace *t)
{
	struct trace_status status;

	if (!t->session)
		return;
	trace_session_status(t->session, &status);
	for (size_t i = 0; i < status.nr_refused; i++)
		fprintf(stderr, "sonde %s: not traced: %s: %s\n", t->verb,
			status.refused[i].function, status.refused[i].reason);
	for (size_t i = 0; i < status.nr_gaps; i++)
		fprintf(stderr, "sonde %s: not traced: %s: %s\n", t->verb, status.gaps[i].function,
			status.gaps[i].reason);
}

void run_trace_tell_rate(const struct run_trace *t)
{
	const uint64_t *counters = t->last.counters.v;
	uint64_t on = counters[COUNTER_TRACING_NS], seen = on - counters[COUNTER_UNSAMPLED_NS];

	if (!seen)
		return;
	fprintf(stderr, "sonde %s: %.1f events per second of traced time\n", t->verb,
		run_trace_events_per_second(t, &t->last));
	if (counters[COUNTER_SAMPLINGS])
		fprintf(stderr,
			"sonde %s: sampled: traced %" PRIu64 " of %" PRIu64
			" ms (%.1f %%), as more than %" PRIu64 " calls came in a second\n",
			t->verb, seen / 1000000, on / 1000000, 100.0 * (double)seen / (double)on,
			t->options.max_rate);
}

static void tell_counts(const struct run_trace *t)
{
	const struct trace_writer_counts sum = run_trace_sum(t);
	const uint64_t lost = sum.overruns + counters_lost(&t->last.counters);
	const uint64_t *counters = t->last.counters.v;

	if (t->last.no_exitless[0])
		fprintf(stderr, "sonde %s: traced by traps: %s\n", t->verb, t->last.no_exitless);
	if (counters[COUNTER_YIELDS])
		fprintf(stderr,
			"sonde %s: not traced for %" PRIu64
			" ms: the guest's own ftrace changed its "
			"sites, and had %" PRIu64 " functions for a time\n",
			t->verb, counters[COUNTER_YIELDED_NS] / 1000000,
			counters[COUNTER_YIELDED_FUNCTIONS]);
	fprintf(stderr,
		"sonde %s: %" PRIu64 " allocations and %" PRIu64 " frees in %s, lost: ", t->verb,
		sum.allocs, sum.frees, t->dir);
	lost ? fprintf(stderr, "%" PRIu64 "\n", lost) : fputs("none\n", stderr);
}

int run_trace_conclude(const struct run_trace *t, struct error *err)
{
	tell_counts(t);
	if (t->failed.code) {
		*err = t->failed;
		return -t->failed.code;
	}
	if (t->specs[0] && !t->started)
		return error_set(err, ENOENT,
				 "tracing never started: the kernel of %s was not seen running",
				 t->image->banner);
	if (t->last.restored.foreign)
		return error_set_at(err, ESTALE, t->last.restored.first_foreign,
				    "%zu patched places were changed by the guest and left alone",
				    t->last.restored.foreign);
	return 0;
}
