/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_COUNTERS_H
#define SONDE_FORMATS_EVENT_COUNTERS_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is counted while a trace is recorded. One table describes all counters; the sidecar, the
 * JSON of the verbs, QMP replies and texts are written by going through it.
 *
 * To add a counter: a name here, a row in counters.c, and the place that counts.
 */
enum counter_id {
	COUNTER_OVERRUNS,
	COUNTER_RING_DROPS,
	COUNTER_RING_DAMAGED,
	COUNTER_LOST,
	COUNTER_PAUSES,
	COUNTER_YIELDS,
	COUNTER_YIELDED_NS,
	COUNTER_YIELDED_FUNCTIONS,
	COUNTER_SAMPLINGS,
	COUNTER_UNSAMPLED_NS,
	COUNTER_NULL_ALLOCS,
	COUNTER_NULL_FREES,
	COUNTER_NESTED,
	COUNTER_UNPAIRED_RETURNS,
	COUNTER_IN_FLIGHT,
	COUNTER_TRACING_NS,
	COUNTER_TRAPS,
	COUNTER_DOORBELLS,
	COUNTER_RING_RECORDS,
	COUNTER_RING_WAITS,
	COUNTER_RING_WAIT_NS,
	COUNTER_COUNT,
};

enum counter_kind {
	COUNTER_LOSS,     /* events that belong into the trace and are not in it */
	COUNTER_PART,     /* those of the next COUNTER_LOSS row that have this cause */
	COUNTER_GAP,      /* periods without tracing; how many events they had is not known */
	COUNTER_LEFT_OUT, /* calls that were seen and are no events by the tracer's rules */
	COUNTER_INFO,     /* how recording went, and what it cost the vCPUs */
	COUNTER_DETAIL,   /* more about the row above */
	COUNTER_KIND_COUNT,
};

struct counter {
	const char *key;   /* in the sidecar, JSON and QMP */
	const char *label; /* in text: a noun without its plural s; what a duration is of */
	const char *cause; /* of a loss or gap, else NULL */
	enum counter_kind kind;
	bool is_ns;    /* a duration, in ns */
	bool per_vcpu; /* counted for each vCPU, too */
};

extern const struct counter counter_table[COUNTER_COUNT];

struct trace_counters {
	uint64_t v[COUNTER_COUNT]; /* by enum counter_id */
};

/* Counters that several threads count at once. */
struct live_counters {
	_Atomic uint64_t v[COUNTER_COUNT];
};

static inline void count_event(struct live_counters *counters, enum counter_id id, uint64_t n)
{
	if (n)
		atomic_fetch_add_explicit(&counters->v[id], n, memory_order_relaxed);
}

/* Add all that is counted in `more`. Sums stay at UINT64_MAX rather than wrap. */
void counters_add(struct trace_counters *sum, const struct trace_counters *more);

/* Events known to be lost, over all causes. */
uint64_t counters_lost(const struct trace_counters *counters);

/* Whether events may be missing: any counter_is_loss() is not 0. */
bool counters_are_lossy(const struct trace_counters *counters);

enum { COUNTER_TEXT_MAX = 512 };

/* Whether it counts what is missing from the trace: a loss, a part of one, or a gap. */
bool counter_is_loss(enum counter_id id);

/*
 * What a text says of a counter: "1,234 events: ring full", "2 gaps (5.000 of 9,000 ms, 0.1 %):
 * ...". Returns false if there is nothing to say: all it is about is 0, or it is a COUNTER_DETAIL,
 * which the row above says.
 */
bool counter_text(const struct trace_counters *counters, enum counter_id id, char *out,
		  size_t size);

/* All of a kind that have something to say, comma-separated; "" if none has. */
void counters_text(const struct trace_counters *counters, enum counter_kind kind, char *out,
		   size_t size);

/* Add all, or those that are counted for each vCPU, to a JSON object. Returns 0, or -1 without
 * memory. Values are capped to INT64_MAX. */
int counters_put(json_t *object, const struct trace_counters *counters);
int counters_put_vcpu(json_t *object, const struct trace_counters *counters);

/* Read what is there; the rest stays as it is. Returns -EINVAL for what is no count. */
int counters_get(const json_t *object, struct trace_counters *counters);

#endif
