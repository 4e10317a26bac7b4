/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of functions (the graph tracer), and system calls, by name: how many, and how long they
 * took. */
#include <errno.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/calls/call-stats.h"
#include "formats/event/graph.h"
#include "formats/graph/call-choice.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"
#include "formats/syscalls/call-choice.h"

enum { LABEL = 6 };

struct calls {
	struct analysis base;
	struct call_stats *stats;
	struct event_selection *selection; /* of functions; NULL: all */
	struct syscall_choice *choice;     /* of system calls; NULL: all */
	struct call_filter *graph_choice;  /* of functions, instead of filters on their entries */
	bool syscalls;                     /* else functions */
};

/* A tracer of calls. */
struct tracer {
	const char *name, *records;
	bool (*is_of)(const struct trace_instance *instance);
};

/* The one that the user named, or the first: the calls of several would be mixed up. */
static int choose(const struct replay *replay, const struct tracer *tracer,
		  const struct trace_instance **out, struct error *err)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	*out = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!tracer->is_of(&all[i]) || !replay_has_instance(replay, &all[i]))
			continue;
		if (*out && replay->view->choice.instances.n)
			return error_set(err, EINVAL,
					 "--instance: several have calls: choose one, as with "
					 "--instance=%s",
					 (*out)->name);
		if (!*out)
			*out = &all[i];
	}
	return *out ? 0 : analysis_lacks(replay, tracer->name, tracer->records, err);
}

static int init_of(struct analysis *base, const struct tracer *tracer, const char *only,
		   struct error *err)
{
	struct calls *s = (struct calls *)base;
	const struct trace_instance *instance;
	int ret = choose(base->replay, tracer, &instance, err);

	if (!ret)
		ret = call_stats_create(base->replay->reader, instance, only, &s->stats, err);
	if (!ret)
		s->syscalls = call_stats_are_syscalls(s->stats);
	return ret;
}

static int init_syscalls(struct analysis *base, struct error *err)
{
	static const struct tracer tracer = {"syscalls", "system calls", syscall_is_of};

	return init_of(base, &tracer, NULL, err);
}

static int init_graph(struct analysis *base, struct error *err)
{
	static const struct tracer tracer = {"graph", "calls of functions", graph_is_of};

	return init_of(base, &tracer, base->options.only, err);
}

/* As sonde events --syscalls does. */
static int select_syscalls(struct analysis *base, struct error *err)
{
	struct calls *s = (struct calls *)base;
	const struct replay *replay = base->replay;
	const struct event_choice *choice = &replay->view->choice;
	int ret;

	if (event_choice_is_all(choice))
		return 0;
	if (choice->events.n)
		return error_set(err, EINVAL,
				 "--event chooses events, and this report is about calls: leave it "
				 "out");
	ret = syscall_choice_create(&replay->chosen.filters, &choice->vcpus,
				    call_stats_instance(s->stats), replay->chosen.texts, &s->choice,
				    err);
	if (!ret)
		call_stats_choose(s->stats, s->choice);
	return ret;
}

/* As sonde events --graph does. */
static int select_graph(struct analysis *base, struct error *err)
{
	struct calls *s = (struct calls *)base;
	const struct replay *replay = base->replay;
	const struct event_choice *choice = &replay->view->choice;
	struct event_wish wish = event_choice_wish(choice, &replay->chosen.filters);
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);
	int ret;

	if (event_choice_is_all(choice))
		return 0;
	wish.graph = true;
	wish.instance = call_stats_instance(s->stats);
	ret = event_selection_create(&wish, all, n, replay->chosen.texts, &s->selection, err);
	if (ret != -ENOENT || !replay->chosen.filters.n)
		return ret;
	ret = graph_choice_create(&replay->chosen.filters, wish.instance, replay->chosen.texts,
				  &s->graph_choice, err);
	if (ret)
		return ret;
	call_stats_choose_functions(s->stats, s->graph_choice);
	wish.filters = NULL;
	return event_selection_create(&wish, all, n, replay->chosen.texts, &s->selection, err);
}

static void deinit(struct analysis *base)
{
	struct calls *s = (struct calls *)base;

	call_stats_destroy(s->stats);
	event_selection_destroy(s->selection);
	syscall_choice_destroy(s->choice);
	call_filter_destroy(s->graph_choice);
}

static int add_event(struct analysis *base, const struct event *event)
{
	struct calls *s = (struct calls *)base;

	if (!base->replay->in_window || (s->selection && !event_selection_has(s->selection, event)))
		return 0;
	return call_stats_add(s->stats, event);
}

/* What is open goes on when a trace that is followed has more. */
static int finish(struct analysis *base)
{
	struct calls *s = (struct calls *)base;
	int ret = base->replay->view->follow ? 0 : call_stats_end(s->stats);

	call_stats_sort(s->stats, base->options.call_order);
	return ret;
}

/* --- output ---------------------------------------------------------------------------------- */

static void add_time(struct table *table, const struct call_row *row, uint64_t ns)
{
	table_add_cell(table, row->calls > row->unreturned ? measure_duration((double)ns).s : "");
}

static bool has_unreturned(const struct calls *s)
{
	size_t i = 0;

	while (i < call_stats_rows(s->stats) && !call_stats_row(s->stats, i)->unreturned)
		i++;
	return i < call_stats_rows(s->stats);
}

static void add_cells(struct table *table, const struct calls *s, const struct call_row *row)
{
	add_time(table, row, row->durations.total_ns);
	table_add_cell(table, call_stats_name(s->stats, row).s);
	table_add_cell(table, text_count(row->calls).s);
	if (s->syscalls)
		table_add_cell(table, row->errors ? text_count(row->errors).s : "");
	if (has_unreturned(s))
		table_add_cell(table, row->unreturned ? text_count(row->unreturned).s : "");
	if (!s->syscalls)
		add_time(table, row, row->self_ns);
	add_time(table, row, durations_mean(&row->durations));
	add_time(table, row, durations_percentile(&row->durations, 50));
	add_time(table, row, durations_percentile(&row->durations, 95));
	add_time(table, row, durations_percentile(&row->durations, 99));
	add_time(table, row, row->durations.max_ns);
}

static size_t nr_shown(const struct calls *s)
{
	const size_t top = s->base.options.top;

	return top && top < call_stats_rows(s->stats) ? top : call_stats_rows(s->stats);
}

static void add_columns(struct table *table, const struct calls *s)
{
	static const char *const syscalls[] = {"CALLS", "ERRORS", "NO RETURN", "MEAN", "P50",
					       "P95",   "P99",    "MAX",       NULL};
	static const char *const graph[] = {"CALLS", "NO RETURN", "SELF", "MEAN", "P50",
					    "P95",   "P99",       "MAX",  NULL};

	table_add_column(table, "TOTAL", false);
	table_add_column(table, s->syscalls ? "SYSCALL" : "FUNCTION", true);
	for (const char *const *title = s->syscalls ? syscalls : graph; *title; title++)
		if (strcmp(*title, "NO RETURN") || has_unreturned(s))
			table_add_column(table, *title, false);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct calls *s = (const struct calls *)base;
	const size_t shown = nr_shown(s);
	struct table *table = table_create();

	if (!table)
		return;
	fprintf(out, "\n%s of the instance %s\n", s->syscalls ? "System calls" : "Calls",
		call_stats_instance(s->stats)->name);
	add_columns(table, s);
	for (size_t i = 0; i < shown; i++)
		add_cells(table, s, call_stats_row(s->stats, i));
	if (call_stats_rows(s->stats))
		table_print(table, out);
	else if (s->base.options.only)
		fprintf(out, "no calls of functions '%s'\n", s->base.options.only);
	else
		fputs("no calls\n", out);
	if (shown < call_stats_rows(s->stats))
		fprintf(out, "%s more; --top 0 shows all\n",
			text_count(call_stats_rows(s->stats) - shown).s);
	if (call_stats_open(s->stats))
		fprintf(out, "%-*s%s had not returned when the %s ended\n", LABEL, "Open",
			text_number(call_stats_open(s->stats), "call").s,
			cli_time_is_all(&base->replay->view->time) ? "trace" : "chosen time");
	if (!replay_has_printed_losses(base->replay))
		replay_print_losses(base->replay, out, LABEL);
	text_print_missing(out, base->replay->reader, "the calls", LABEL);
	table_destroy(table);
}

static json_t *row_json(const struct calls *s, const struct call_row *row)
{
	json_t *json = json_pack(
		"{ss so so so so so so so so}", "name", call_stats_name(s->stats, row).s, "calls",
		json_from_count(row->calls), "unreturned", json_from_count(row->unreturned),
		"total_ns", json_from_count(row->durations.total_ns), "mean_ns",
		json_from_count(durations_mean(&row->durations)), "p50_ns",
		json_from_count(durations_percentile(&row->durations, 50)), "p95_ns",
		json_from_count(durations_percentile(&row->durations, 95)), "p99_ns",
		json_from_count(durations_percentile(&row->durations, 99)), "max_ns",
		json_from_count(row->durations.max_ns));
	int failed = s->syscalls
			     ? json_object_set_new(json, "errors", json_from_count(row->errors))
			     : json_object_set_new(json, "self_ns", json_from_count(row->self_ns));

	if (failed) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct calls *s = (const struct calls *)base;
	json_t *array = json_array();
	int failed = replay_put_bound(base->replay, root);

	for (size_t i = 0; i < nr_shown(s); i++)
		failed |= json_array_append_new(array, row_json(s, call_stats_row(s->stats, i)));
	failed |= json_object_set_new(root, s->syscalls ? "open_syscalls" : "open_calls",
				      json_from_count(call_stats_open(s->stats)));
	return failed | json_object_set_new(root, s->syscalls ? "syscalls" : "functions", array);
}

const struct analysis_ops syscalls_analysis = {
	.about = "system calls by name: calls, errors, durations",
	.size = sizeof(struct calls),
	.init = init_syscalls,
	.select = select_syscalls,
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};

const struct analysis_ops functions_analysis = {
	.about = "calls of functions with returns: how many, durations, without inner calls",
	.size = sizeof(struct calls),
	.init = init_graph,
	.select = select_graph,
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
