/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What query-trace says as metrics of Prometheus: its text format 0.0.4 (prometheus.io/docs,
 * "Exposition formats"), in base units, counters ending in _total.
 */
#include "vmm/monitor/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "formats/event/counters.h"

static uint64_t count_at(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* A label's value: quotes, backslashes and newlines are escaped. */
static void print_label(FILE *out, const char *name, const json_t *value)
{
	const char *text = json_is_string(value) ? json_string_value(value) : "";

	fprintf(out, "%s=\"", name);
	for (; *text; text++) {
		if (*text == '\n') {
			fputs("\\n", out);
			continue;
		}
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		putc(*text, out);
	}
	putc('"', out);
}

/* Where the metrics go, and which guest they are of. */
struct metrics {
	FILE *out;
	const json_t *trace; /* the answer of query-trace */
};

static void print_head(const struct metrics *m, const char *name, const char *type,
		       const char *help)
{
	fprintf(m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/*
 * What tells the samples of one guest from those of others whose files are collected together: the
 * domain, or the trace's directory. The braces stay open.
 */
static void begin_sample(const struct metrics *m, const char *name)
{
	const json_t *domain = json_object_get(m->trace, "domain");

	fprintf(m->out, "%s{", name);
	if (domain)
		print_label(m->out, "domain", domain);
	else
		print_label(m->out, "trace_dir", json_object_get(m->trace, "trace_dir"));
}

static void print_sample(const struct metrics *m, const char *name, uint64_t value)
{
	begin_sample(m, name);
	fprintf(m->out, "} %" PRIu64 "\n", value);
}

static void print_seconds(const struct metrics *m, const char *name, uint64_t ns)
{
	begin_sample(m, name);
	fprintf(m->out, "} %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

/* Whether it traces now, and where to. */
static void print_info(const struct metrics *m)
{
	print_head(m, "sonde_tracing", "gauge", "Whether events are recorded now.");
	print_sample(m, "sonde_tracing", json_is_true(json_object_get(m->trace, "enabled")));
	print_head(m, "sonde_trace_info", "gauge", "Where the trace is written, and how.");
	begin_sample(m, "sonde_trace_info");
	if (json_object_get(m->trace, "domain")) {
		putc(',', m->out);
		print_label(m->out, "trace_dir", json_object_get(m->trace, "trace_dir"));
	}
	putc(',', m->out);
	print_label(m->out, "mode", json_object_get(m->trace, "mode"));
	fputs("} 1\n", m->out);
}

static void print_by_vcpu(const struct metrics *m, const char *key, const char *help)
{
	const json_t *vcpu;
	char name[64];
	size_t i;

	snprintf(name, sizeof(name), "sonde_%s_total", key);
	print_head(m, name, "counter", help);
	json_array_foreach(json_object_get(m->trace, "vcpus"), i, vcpu) {
		begin_sample(m, name);
		fprintf(m->out, ",vcpu=\"%" PRIu64 "\"} %" PRIu64 "\n", count_at(vcpu, "index"),
			count_at(vcpu, key));
	}
}

/* "ring_wait_ns" is sonde_ring_wait_seconds_total. */
static void print_counter(const struct metrics *m, const struct counter *counter, uint64_t value)
{
	const size_t length = strlen(counter->key) - (counter->is_ns ? strlen("_ns") : 0);
	char name[96], help[256];

	snprintf(name, sizeof(name), "sonde_%.*s%s_total", (int)length, counter->key,
		 counter->is_ns ? "_seconds" : "");
	snprintf(help, sizeof(help), "%s%s%s.", counter->label ? counter->label : counter->key,
		 counter->cause ? ": " : "", counter->cause ? counter->cause : "");
	print_head(m, name, "counter", help);
	if (counter->is_ns)
		print_seconds(m, name, value);
	else
		print_sample(m, name, value);
}

/* What is live, if the recorder follows that. */
static void print_live(const struct metrics *m)
{
	static const struct {
		const char *key, *name, *help;
	} gauges[] = {
		{"bytes", "sonde_live_bytes", "Bytes that are live, each counted once."},
		{"objects", "sonde_live_objects", "Objects in slabs that are live."},
		{"object_bytes", "sonde_live_object_bytes", "Their bytes."},
		{"slabs", "sonde_live_slabs", "Slabs."},
		{"slab_bytes", "sonde_live_slab_bytes", "Their bytes, with room."},
	};
	const json_t *live = json_object_get(m->trace, "live");

	if (!json_is_object(live))
		return;
	print_head(m, "sonde_live_failed", "gauge", "Whether live memory is not counted any more.");
	print_sample(m, "sonde_live_failed", json_object_get(live, "error") != NULL);
	if (json_object_get(live, "error"))
		return;
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		print_head(m, gauges[i].name, "gauge", gauges[i].help);
		print_sample(m, gauges[i].name, count_at(live, gauges[i].key));
	}
	print_head(m, "sonde_live_time_seconds", "gauge",
		   "Time of the trace clock that live memory is of.");
	print_seconds(m, "sonde_live_time_seconds", count_at(live, "time_ns"));
}

void metrics_print(FILE *out, const json_t *trace)
{
	const struct metrics m = {out, trace};
	struct trace_counters counters = {0};

	counters_get(trace, &counters);
	print_info(&m);
	print_by_vcpu(&m, "events", "Events recorded.");
	print_by_vcpu(&m, "allocs", "Allocations recorded.");
	print_by_vcpu(&m, "frees", "Frees recorded.");
	print_head(&m, "sonde_events_lost_total", "counter", "Events lost, over all causes.");
	print_sample(&m, "sonde_events_lost_total", counters_lost(&counters));
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		print_counter(&m, &counter_table[id], counters.v[id]);
	print_live(&m);
}
