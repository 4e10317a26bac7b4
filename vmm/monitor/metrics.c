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

static void print_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Whether it traces now, and where to. */
static void print_info(FILE *out, const json_t *trace)
{
	print_head(out, "sonde_tracing", "gauge", "Whether events are recorded now.");
	fprintf(out, "sonde_tracing %d\n", json_is_true(json_object_get(trace, "enabled")));
	print_head(out, "sonde_trace_info", "gauge", "Where the trace is written, and how.");
	fputs("sonde_trace_info{", out);
	if (json_object_get(trace, "domain")) {
		print_label(out, "domain", json_object_get(trace, "domain"));
		putc(',', out);
	}
	print_label(out, "trace_dir", json_object_get(trace, "trace_dir"));
	putc(',', out);
	print_label(out, "mode", json_object_get(trace, "mode"));
	fputs("} 1\n", out);
}

static void print_by_vcpu(FILE *out, const json_t *trace, const char *key, const char *help)
{
	const json_t *vcpu;
	char name[64];
	size_t i;

	snprintf(name, sizeof(name), "sonde_%s_total", key);
	print_head(out, name, "counter", help);
	json_array_foreach(json_object_get(trace, "vcpus"), i, vcpu)
		fprintf(out, "%s{vcpu=\"%" PRIu64 "\"} %" PRIu64 "\n", name,
			count_at(vcpu, "index"), count_at(vcpu, key));
}

/* "ring_wait_ns" is sonde_ring_wait_seconds_total. */
static void print_counter(FILE *out, const struct counter *counter, uint64_t value)
{
	const size_t length = strlen(counter->key) - (counter->is_ns ? strlen("_ns") : 0);
	char name[96], help[256];

	snprintf(name, sizeof(name), "sonde_%.*s%s_total", (int)length, counter->key,
		 counter->is_ns ? "_seconds" : "");
	snprintf(help, sizeof(help), "%s%s%s.", counter->label ? counter->label : counter->key,
		 counter->cause ? ": " : "", counter->cause ? counter->cause : "");
	print_head(out, name, "counter", help);
	if (counter->is_ns)
		fprintf(out, "%s %" PRIu64 ".%09" PRIu64 "\n", name, value / 1000000000,
			value % 1000000000);
	else
		fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* What is live, if the recorder follows that. */
static void print_live(FILE *out, const json_t *live)
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
	const uint64_t ns = count_at(live, "time_ns");

	if (!json_is_object(live))
		return;
	print_head(out, "sonde_live_failed", "gauge",
		   "Whether live memory is not counted any more.");
	fprintf(out, "sonde_live_failed %d\n", json_object_get(live, "error") != NULL);
	if (json_object_get(live, "error"))
		return;
	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
		print_head(out, gauges[i].name, "gauge", gauges[i].help);
		fprintf(out, "%s %" PRIu64 "\n", gauges[i].name, count_at(live, gauges[i].key));
	}
	print_head(out, "sonde_live_time_seconds", "gauge",
		   "Time of the trace clock that live memory is of.");
	fprintf(out, "sonde_live_time_seconds %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000,
		ns % 1000000000);
}

void metrics_print(FILE *out, const json_t *trace)
{
	struct trace_counters counters = {0};

	counters_get(trace, &counters);
	print_info(out, trace);
	print_by_vcpu(out, trace, "events", "Events recorded.");
	print_by_vcpu(out, trace, "allocs", "Allocations recorded.");
	print_by_vcpu(out, trace, "frees", "Frees recorded.");
	print_head(out, "sonde_events_lost_total", "counter", "Events lost, over all causes.");
	fprintf(out, "sonde_events_lost_total %" PRIu64 "\n", counters_lost(&counters));
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++)
		print_counter(out, &counter_table[id], counters.v[id]);
	print_live(out, json_object_get(trace, "live"));
}
