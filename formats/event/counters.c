/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/counters.h"

#include <stdio.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"

const struct counter counter_table[COUNTER_COUNT] = {
	[COUNTER_DISK_DROPS] = {.key = "disk_drops",
				.label = "record",
				.cause = "disk too slow",
				.kind = COUNTER_PART,
				.per_vcpu = true},
	[COUNTER_OVERRUNS] = {.key = "overruns",
			      .label = "record",
			      .cause = "not written",
			      .kind = COUNTER_LOSS,
			      .per_vcpu = true},
	[COUNTER_RING_DROPS] = {.key = "ring_drops",
				.label = "event",
				.cause = "ring full",
				.kind = COUNTER_PART,
				.per_vcpu = true},
	[COUNTER_RING_DAMAGED] = {.key = "ring_damaged",
				  .label = "event",
				  .cause = "ring damaged",
				  .kind = COUNTER_PART,
				  .per_vcpu = true},
	[COUNTER_UNREADABLE] = {.key = "unreadable",
				.label = "event",
				.cause = "its object or cache could not be read in guest memory",
				.kind = COUNTER_PART},
	[COUNTER_LOST] = {.key = "lost",
			  .label = "event",
			  .cause = "not captured",
			  .kind = COUNTER_LOSS},
	[COUNTER_OVERWRITTEN] = {.key = "overwritten",
				 .label = "event",
				 .cause = "older than what the flight recorder keeps",
				 .kind = COUNTER_GAP},
	[COUNTER_PAUSES] = {.key = "pauses",
			    .label = "gap",
			    .cause = "tracing was switched off",
			    .kind = COUNTER_GAP},
	[COUNTER_YIELDS] = {.key = "yields",
			    .label = "gap",
			    .cause = "the guest's own ftrace or kprobes changed traced functions",
			    .kind = COUNTER_GAP},
	[COUNTER_YIELDED_NS] = {.key = "yielded_ns", .kind = COUNTER_DETAIL, .is_ns = true},
	[COUNTER_YIELDED_FUNCTIONS] = {.key = "yielded_functions",
				       .label = "yielded function",
				       .kind = COUNTER_DETAIL},
	[COUNTER_LATE_MODULES] =
		{.key = "late_modules",
		 .label = "gap",
		 .cause = "modules were loaded, whose first calls (init functions) were not recorded",
		 .kind = COUNTER_GAP},
	[COUNTER_SAMPLINGS] = {.key = "samplings",
			       .label = "gap",
			       .cause = "this is a sample, as more calls came than --max-rate",
			       .kind = COUNTER_GAP},
	[COUNTER_UNSAMPLED_NS] = {.key = "unsampled_ns", .kind = COUNTER_DETAIL, .is_ns = true},
	[COUNTER_NULL_ALLOCS] = {.key = "null_allocs",
				 .label = "NULL allocation",
				 .kind = COUNTER_LEFT_OUT},
	[COUNTER_NULL_FREES] = {.key = "null_frees",
				.label = "NULL free",
				.kind = COUNTER_LEFT_OUT},
	[COUNTER_NESTED] = {.key = "nested", .label = "nested call", .kind = COUNTER_LEFT_OUT},
	[COUNTER_VMALLOC_ALLOCS] = {.key = "vmalloc_allocs",
				    .label = "vmalloc allocation",
				    .kind = COUNTER_LEFT_OUT},
	[COUNTER_UNPAIRED_RETURNS] = {.key = "unpaired_returns",
				      .label = "unpaired return",
				      .kind = COUNTER_LEFT_OUT},
	[COUNTER_IN_FLIGHT] = {.key = "in_flight",
			       .label = "unfinished call",
			       .kind = COUNTER_LEFT_OUT},
	[COUNTER_TRACING_NS] = {.key = "tracing_ns",
				.label = "of tracing",
				.kind = COUNTER_INFO,
				.is_ns = true},
	[COUNTER_SWITCHES] = {.key = "switches", .label = "site change", .kind = COUNTER_INFO},
	[COUNTER_SWITCHED_SITES] = {.key = "switched_sites",
				    .label = "site",
				    .kind = COUNTER_DETAIL},
	[COUNTER_SWITCH_NS] = {.key = "switch_ns", .kind = COUNTER_DETAIL, .is_ns = true},
	[COUNTER_TRAPS] = {.key = "traps", .label = "trap", .kind = COUNTER_INFO, .per_vcpu = true},
	[COUNTER_DOORBELLS] = {.key = "doorbells", .label = "doorbell", .kind = COUNTER_INFO},
	[COUNTER_RING_RECORDS] = {.key = "ring_records",
				  .label = "exitless record",
				  .kind = COUNTER_INFO,
				  .per_vcpu = true},
	[COUNTER_RING_RESTAMPED] = {.key = "ring_restamped",
				    .label = "changed time stamp",
				    .kind = COUNTER_INFO,
				    .per_vcpu = true},
	[COUNTER_RING_WAITS] = {.key = "ring_waits",
				.label = "full-ring wait",
				.kind = COUNTER_INFO,
				.per_vcpu = true},
	[COUNTER_RING_WAIT_NS] = {.key = "ring_wait_ns",
				  .kind = COUNTER_DETAIL,
				  .is_ns = true,
				  .per_vcpu = true},
	[COUNTER_OVER_BUDGET] = {.key = "over_budget",
				 .label = "refused request for memory",
				 .kind = COUNTER_INFO},
	[COUNTER_DISK_BYTES] = {.key = "disk_bytes",
				.label = "written",
				.kind = COUNTER_INFO,
				.is_bytes = true},
	[COUNTER_DISK_WAITS] = {.key = "disk_waits",
				.label = "slow-disk wait",
				.kind = COUNTER_INFO},
	[COUNTER_DISK_WAIT_NS] = {.key = "disk_wait_ns", .kind = COUNTER_DETAIL, .is_ns = true},
};

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

void counters_add(struct trace_counters *sum, const struct trace_counters *more)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		sum->v[id] = add_capped(sum->v[id], more->v[id]);
}

uint64_t counters_lost(const struct trace_counters *counters)
{
	uint64_t lost = 0;

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind == COUNTER_LOSS)
			lost = add_capped(lost, counters->v[id]);
	}
	return lost;
}

bool counter_is_loss(enum counter_id id)
{
	enum counter_kind kind = counter_table[id].kind;

	return kind == COUNTER_LOSS || kind == COUNTER_PART || kind == COUNTER_GAP;
}

bool counters_are_lossy(const struct trace_counters *counters)
{
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_is_loss(id) && counters->v[id])
			return true;
	}
	return false;
}

/* --- text ----------------------------------------------------------------------------------- */

struct line {
	char *out;
	size_t size, used;
};

static void add(struct line *line, const char *text)
{
	size_t length = strlen(text);

	if (line->used + length >= line->size)
		length = line->size - line->used - 1;
	memcpy(line->out + line->used, text, length);
	line->used += length;
	line->out[line->used] = '\0';
}

/* The time of a gap, in comparison with the time that tracing was on where that is known. */
static void add_time(struct line *line, uint64_t ns, uint64_t tracing_ns)
{
	char percent[32];

	if (!tracing_ns) {
		add(line, text_ms(ns).s);
		return;
	}
	snprintf(percent, sizeof(percent), ", %.1f %%", 100.0 * (double)ns / (double)tracing_ns);
	add(line, text_ms(ns).s);
	add(line, " of ");
	add(line, text_ms(tracing_ns).s);
	add(line, percent);
}

/* The details of row `id`, in parentheses. */
static void add_details(struct line *line, const struct trace_counters *counters,
			enum counter_id id)
{
	bool is_gap = counter_table[id].kind == COUNTER_GAP, any = false;

	while (++id < COUNTER_COUNT && counter_table[id].kind == COUNTER_DETAIL) {
		if (!counters->v[id])
			continue;
		add(line, any ? ", " : " (");
		any = true;
		if (counter_table[id].is_ns)
			add_time(line, counters->v[id],
				 is_gap ? counters->v[COUNTER_TRACING_NS] : 0);
		else
			add(line, text_number(counters->v[id], counter_table[id].label).s);
	}
	if (any)
		add(line, ")");
}

/* A loss without the parts that have rows of their own, which stand right above it. */
static uint64_t without_parts(const struct trace_counters *counters, enum counter_id id)
{
	uint64_t rest = counters->v[id];

	if (counter_table[id].kind != COUNTER_LOSS)
		return rest;
	while (id-- > 0 && counter_table[id].kind == COUNTER_PART)
		rest -= counters->v[id] < rest ? counters->v[id] : rest;
	return rest;
}

static bool is_said(const struct trace_counters *counters, enum counter_id id, uint64_t value)
{
	bool said = value;

	if (counter_table[id].kind == COUNTER_DETAIL)
		return false;
	while (++id < COUNTER_COUNT && counter_table[id].kind == COUNTER_DETAIL)
		said = said || counters->v[id];
	return said;
}

void counters_lost_text(const struct trace_counters *counters, char *out, size_t size)
{
	bool gaps = false;

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		gaps |= counter_table[id].kind == COUNTER_GAP && counters->v[id];
	snprintf(out, size, "%s lost%s", text_count(counters_lost(counters)).s,
		 gaps ? " outside the gaps" : "");
}

bool counter_text(const struct trace_counters *counters, enum counter_id id, char *out, size_t size)
{
	const struct counter *counter = &counter_table[id];
	struct line line = {out, size, 0};
	uint64_t value = without_parts(counters, id);

	if (!is_said(counters, id, value))
		return false;
	if (counter->is_ns || counter->is_bytes) {
		add(&line, counter->is_ns ? text_ms(value).s : text_bytes(value).s);
		add(&line, " ");
		add(&line, counter->label);
	} else {
		add(&line, text_number(value, counter->label).s);
	}
	add_details(&line, counters, id);
	if (counter->cause) {
		add(&line, ": ");
		add(&line, counter->cause);
	}
	return true;
}

void counters_text(const struct trace_counters *counters, enum counter_kind kind, char *out,
		   size_t size)
{
	struct line line = {out, size, 0};
	char text[COUNTER_TEXT_MAX];

	out[0] = '\0';
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind != kind ||
		    !counter_text(counters, id, text, sizeof(text)))
			continue;
		add(&line, line.used ? ", " : "");
		add(&line, text);
	}
}

/* --- JSON ----------------------------------------------------------------------------------- */

static int put(json_t *object, const struct trace_counters *counters, enum counter_id id)
{
	return json_object_set_new(object, counter_table[id].key, json_from_count(counters->v[id]));
}

int counters_put(json_t *object, const struct trace_counters *counters)
{
	int failed = 0;

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		failed |= put(object, counters, id);
	return failed;
}

int counters_put_vcpu(json_t *object, const struct trace_counters *counters)
{
	int failed = 0;

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].per_vcpu)
			failed |= put(object, counters, id);
	}
	return failed;
}

int counters_get(const json_t *object, struct trace_counters *counters)
{
	int ret = 0;

	for (enum counter_id id = 0; !ret && id < COUNTER_COUNT; id++)
		ret = json_read_count(object, counter_table[id].key, &counters->v[id]);
	return ret;
}
