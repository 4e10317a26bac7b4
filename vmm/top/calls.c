/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of functions and system calls, while they are recorded: of all instances of a tracer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/calls/call-stats.h"
#include "formats/base/clock.h"
#include "formats/event/graph.h"
#include "vmm/top/part.h"

struct calls {
	struct top_part part;
	struct call_stats *stats[TRACE_INSTANCES_MAX]; /* of each instance */
	size_t n;
};

static int take_event(struct analysis *analysis, const struct event *event)
{
	struct calls *c = (struct calls *)analysis;

	for (size_t i = 0; i < c->n; i++)
		if (call_stats_instance(c->stats[i]) == event->instance)
			return call_stats_add(c->stats[i], event);
	return 0;
}

static void deinit(struct analysis *analysis)
{
	struct calls *c = (struct calls *)analysis;

	for (size_t i = 0; i < c->n; i++)
		call_stats_destroy(c->stats[i]);
}

/* The complement: a profiled function's key is its address. */
static struct top_sample sample_of(const struct calls *c, size_t i, const struct call_row *row)
{
	const struct call_stats *stats = c->stats[i];
	struct top_sample sample = {.key = ~(row->ip ^ (uint64_t)i << 52),
				    .total = row->calls,
				    .flow = row->durations.total_ns,
				    .live = durations_mean(&row->durations),
				    .count = row->durations.max_ns};

	if (row->calls == row->unreturned)
		sample.live = sample.count = TOP_UNKNOWN;
	snprintf(sample.name, sizeof(sample.name), "%.100s%s%.40s%s", call_stats_name(stats, row).s,
		 c->n > 1 ? " (" : "", c->n > 1 ? call_stats_instance(stats)->name : "",
		 c->n > 1 ? ")" : "");
	return sample;
}

static int put_rows(const struct calls *c, struct top_table *table, struct error *err)
{
	struct top_sample *samples;
	size_t room = 0, n = 0;
	int ret;

	for (size_t i = 0; i < c->n; i++)
		room += call_stats_rows(c->stats[i]);
	samples = calloc(room + 1, sizeof(*samples));
	if (!samples)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < call_stats_rows(c->stats[i]); k++)
			samples[n++] = sample_of(c, i, call_stats_row(c->stats[i], k));
	ret = top_table_put(table, samples, n, clock_monotonic_ns(), err);
	free(samples);
	return ret;
}

static int put_syscalls(struct top_part *part, struct top_model *model, struct error *err)
{
	const struct calls *c = (const struct calls *)part;
	struct top_table *table = &model->tables[TOP_SYSCALLS];

	if (c->n)
		return put_rows(c, table, err);
	top_table_miss(table, "no system calls are traced: sonde ctl SOCKET trace add syscalls");
	return 0;
}

/* What is missing is a profile, too, and the source has said so. */
static int put_functions(struct top_part *part, struct top_model *model, struct error *err)
{
	const struct calls *c = (const struct calls *)part;

	return c->n && !model->profiled ? put_rows(c, &model->tables[TOP_FUNCTIONS], err) : 0;
}

static const struct analysis_ops ops = {.event = take_event, .deinit = deinit};

static int create(const struct replay *replay, bool (*is_of)(const struct trace_instance *),
		  struct calls **out, struct error *err)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);
	struct calls *c = calloc(1, sizeof(*c));
	int ret = 0;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->part.analysis = (struct analysis){.ops = &ops, .replay = replay};
	for (size_t i = 0; !ret && i < n && c->n < TRACE_INSTANCES_MAX; i++)
		if (is_of(&all[i])) {
			ret = call_stats_create(replay->reader, &all[i], NULL, &c->stats[c->n],
						err);
			c->n += !ret;
		}
	if (ret)
		analysis_destroy(&c->part.analysis);
	else
		*out = c;
	return ret;
}

int top_functions_create(const struct replay *replay, struct top_part **out, struct error *err)
{
	struct calls *c;
	int ret = create(replay, graph_is_of, &c, err);

	if (ret)
		return ret;
	c->part.put = put_functions;
	*out = &c->part;
	return 0;
}

int top_syscalls_create(const struct replay *replay, struct top_part **out, struct error *err)
{
	struct calls *c;
	int ret = create(replay, syscall_is_of, &c, err);

	if (ret)
		return ret;
	c->part.put = put_syscalls;
	*out = &c->part;
	return 0;
}
