/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_COUNTERS_H
#define SONDE_FORMATS_EVENT_COUNTERS_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What is counted while a trace is recorded. One table describes all counters. The sidecar, the
 * JSON of the verbs, QMP replies and texts iterate over it.
 *
 * To add a counter: a name here, a row in counters.c, and the place that counts.
 */
enum counter_id {
	COUNTER_DISK_DROPS,
	COUNTER_OVERRUNS,
	COUNTER_RING_DROPS,
	COUNTER_RING_DAMAGED,
	COUNTER_UNREADABLE,
	COUNTER_LOST,
	COUNTER_OVERWRITTEN,
	COUNTER_PAUSES,
	COUNTER_YIELDS,
	COUNTER_YIELDED_NS,
	COUNTER_YIELDED_FUNCTIONS,
	COUNTER_LATE_MODULES,
	COUNTER_SAMPLINGS,
	COUNTER_UNSAMPLED_NS,
	COUNTER_NULL_ALLOCS,
	COUNTER_NULL_FREES,
	COUNTER_NESTED,
	COUNTER_VMALLOC_ALLOCS,
	COUNTER_UNPAIRED_RETURNS,
	COUNTER_IN_FLIGHT,
	COUNTER_TRACING_NS,
	COUNTER_SWITCHES,
	COUNTER_SWITCHED_SITES,
	COUNTER_SWITCH_NS,
	COUNTER_TRAPS,
	COUNTER_DOORBELLS,
	COUNTER_RING_RECORDS,
	COUNTER_RING_RESTAMPED,
	COUNTER_RING_WAITS,
	COUNTER_RING_WAIT_NS,
	COUNTER_OVER_BUDGET,
	COUNTER_DISK_BYTES,
	COUNTER_DISK_WAITS,
	COUNTER_DISK_WAIT_NS,
	COUNTER_COUNT,
};

enum counter_kind {
	COUNTER_LOSS,     /* events that are missing from the trace */
	COUNTER_PART,     /* events of the next COUNTER_LOSS row, with this cause */
	COUNTER_GAP,      /* periods without tracing; how many events they hold is not known */
	COUNTER_LEFT_OUT, /* calls that the tracer saw and does not record, by its rules */
	COUNTER_INFO,     /* how recording went, and what it cost the vCPUs */
	COUNTER_DETAIL,   /* more about the row above */
	COUNTER_KIND_COUNT,
};

struct counter {
	const char *key;   /* in the sidecar, JSON and QMP */
	const char *label; /* in text: a noun in the singular; or what a duration is of */
	const char *cause; /* of a loss or gap, else NULL */
	enum counter_kind kind;
	bool is_ns; /* a duration, in ns */
	bool is_bytes;
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

/* "7 lost"; if there were gaps, "7 lost outside the gaps", as what happened in them is not counted. */
void counters_lost_text(const struct trace_counters *counters, char *out, size_t size);

/* Whether events may be missing: any counter_is_loss() is not 0. */
bool counters_are_lossy(const struct trace_counters *counters);

enum { COUNTER_TEXT_MAX = 512 };

/* Whether it counts what is missing from the trace: a loss, a part of one, or a gap. */
bool counter_is_loss(enum counter_id id);

/*
 * The text of a counter: "1,234 events: ring full", "2 gaps (5.000 ms of 9,000 ms, 0.1 %):
 * tracing was switched off". Returns false if there is none: it and its details are 0, or it is
 * a COUNTER_DETAIL, which the row above contains.
 */
bool counter_text(const struct trace_counters *counters, enum counter_id id, char *out,
		  size_t size);

/* The texts of all counters of a kind, comma-separated; "" if there are none. */
void counters_text(const struct trace_counters *counters, enum counter_kind kind, char *out,
		   size_t size);

/* Add all, or those that are counted for each vCPU, to a JSON object. Returns 0, or -1 without
 * memory. Values are capped to INT64_MAX. */
int counters_put(json_t *object, const struct trace_counters *counters);
int counters_put_vcpu(json_t *object, const struct trace_counters *counters);

/*
 * Read the counters that the object has; the others stay as they are. Returns -EINVAL for a
 * value that is no count.
 */
int counters_get(const json_t *object, struct trace_counters *counters);

#endif
