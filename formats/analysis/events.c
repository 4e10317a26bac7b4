/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many events of each kind the trace has, whatever traced them; of those that name a function
 * alone, how many each function has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/command.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/event/function.h"
#include "formats/event/graph.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum {
	LABEL = 14,
	MAX_KINDS = 4096,
	MAX_HITS = 1 << 17 /* a trace of nonsense gets no more memory */
};

/* Events of one class of an instance. */
struct kind {
	const struct trace_instance *instance;
	const struct event_class *class;
	const struct event_field *function; /* that is counted, of events of the function tracer */
	uint64_t n;
	int64_t first_ns, last_ns;
};

struct hits {
	uint32_t kind;
	uint64_t ip, n;
};

struct events {
	struct analysis base;
	struct kind *kinds;
	size_t nr_kinds, last; /* the kind of the last event */
	struct u64_map *maps;  /* of each kind: hits by ip, uint64_t */
	struct hits *hits;     /* of all kinds, the most first; made by finish() */
	size_t nr_hits, counted;
	uint64_t n;
	int64_t first_ns, last_ns;
	/* Of all events, also those that were not chosen: rates are of their time. */
	bool has_before; /* there are some before the time that was chosen */
	uint64_t seen;   /* in it */
	int64_t begin_ns, end_ns;
};

static void deinit(struct analysis *base)
{
	struct events *e = (struct events *)base;

	for (size_t i = 0; i < e->nr_kinds; i++)
		u64_map_deinit(&e->maps[i]);
	free(e->maps);
	free(e->kinds);
	free(e->hits);
}

/* --- counting -------------------------------------------------------------------------------- */

static const struct event_field *counted_field(const struct event_class *class)
{
	if (strcmp(class->system, function_class(0)->system) != 0)
		return NULL;
	return event_field_own(class, "ip");
}

static int add_kind(struct events *e, const struct event *event)
{
	struct kind *kinds = reallocarray(e->kinds, e->nr_kinds + 1, sizeof(*kinds));
	struct u64_map *maps;

	if (!kinds)
		return -ENOMEM;
	e->kinds = kinds;
	maps = reallocarray(e->maps, e->nr_kinds + 1, sizeof(*maps));
	if (!maps)
		return -ENOMEM;
	e->maps = maps;
	u64_map_init(&maps[e->nr_kinds], sizeof(uint64_t));
	kinds[e->nr_kinds] = (struct kind){.instance = event->instance,
					   .class = event->class,
					   .function = counted_field(event->class),
					   .first_ns = event->ns,
					   .last_ns = event->ns};
	e->last = e->nr_kinds++;
	return 0;
}

static bool is_of(const struct kind *kind, const struct event *event)
{
	return kind->class == event->class && kind->instance == event->instance;
}

/* NULL: no memory, or too many. */
static struct kind *kind_of(struct events *e, const struct event *event)
{
	if (e->nr_kinds && is_of(&e->kinds[e->last], event))
		return &e->kinds[e->last];
	for (size_t i = 0; i < e->nr_kinds; i++) {
		if (is_of(&e->kinds[i], event)) {
			e->last = i;
			return &e->kinds[i];
		}
	}
	if (e->nr_kinds == MAX_KINDS || add_kind(e, event))
		return NULL;
	return &e->kinds[e->last];
}

static int count_function(struct events *e, const struct kind *kind, const struct event *event)
{
	const uint64_t ip = event_field_value(kind->function, event->bytes);
	struct u64_map *map = &e->maps[kind - e->kinds];
	uint64_t *n = u64_map_find(map, ip);

	if (!n && e->counted < MAX_HITS) {
		n = u64_map_insert(map, ip, NULL);
		if (!n)
			return -ENOMEM;
		e->counted++;
	}
	if (n)
		++*n;
	return 0;
}

static void widen(int64_t ns, int64_t *first, int64_t *last)
{
	*first = ns < *first ? ns : *first;
	*last = ns > *last ? ns : *last;
}

static void note_time(struct events *e, int64_t ns)
{
	if (!e->base.replay->in_window) {
		e->has_before = true;
		return;
	}
	if (!e->seen++)
		e->begin_ns = e->end_ns = ns;
	widen(ns, &e->begin_ns, &e->end_ns);
}

static int add_event(struct analysis *base, const struct event *event)
{
	struct events *e = (struct events *)base;
	struct kind *kind;

	note_time(e, event->ns);
	if (!base->replay->in_window || !replay_has_event(base->replay, event))
		return 0;
	kind = kind_of(e, event);
	if (!kind)
		return e->nr_kinds == MAX_KINDS ? 0 : -ENOMEM;
	kind->n++;
	widen(event->ns, &kind->first_ns, &kind->last_ns);
	if (!e->n++)
		e->first_ns = e->last_ns = event->ns;
	widen(event->ns, &e->first_ns, &e->last_ns);
	return kind->function ? count_function(e, kind, event) : 0;
}

static int by_hits(const void *a, const void *b)
{
	const struct hits *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return (x->ip > y->ip) - (x->ip < y->ip);
}

static int finish(struct analysis *base)
{
	struct events *e = (struct events *)base;
	uint64_t ip;

	free(e->hits);
	e->nr_hits = 0;
	e->hits = calloc(e->counted + 1, sizeof(*e->hits));
	if (!e->hits)
		return -ENOMEM;
	for (size_t i = 0; i < e->nr_kinds; i++) {
		const uint64_t *n;
		size_t pos = 0;

		while ((n = u64_map_next(&e->maps[i], &pos, &ip)))
			e->hits[e->nr_hits++] = (struct hits){(uint32_t)i, ip, *n};
	}
	qsort(e->hits, e->nr_hits, sizeof(*e->hits), by_hits);
	return 0;
}

/* --- output ---------------------------------------------------------------------------------- */

static const char *instance_of(const struct kind *kind)
{
	return kind->instance ? kind->instance->name : "";
}

static struct text event_of(const struct kind *kind)
{
	struct text text;

	snprintf(text.s, sizeof(text.s), "%.200s:%.200s", kind->class->system, kind->class->name);
	return text;
}

static uint64_t duration_ns(const struct events *e)
{
	const struct replay *replay = e->base.replay;
	const int64_t begin_ns = e->has_before ? replay->from_ns : e->begin_ns;
	const int64_t end_ns = replay_until(replay, e->end_ns);

	return end_ns > begin_ns ? (uint64_t)end_ns - (uint64_t)begin_ns : 0;
}

static void add_rate(struct table *table, const struct events *e, uint64_t n)
{
	const double seconds = (double)duration_ns(e) / 1e9;
	char rate[32] = "";

	if (seconds > 0)
		snprintf(rate, sizeof(rate), "%.1f", (double)n / seconds);
	table_add_cell(table, rate);
}

static void add_second(struct table *table, int64_t ns)
{
	char second[32];

	snprintf(second, sizeof(second), "%.6f", (double)ns / 1e9);
	table_add_cell(table, second);
}

static void print_kinds(const struct events *e, FILE *out)
{
	struct table *table = e->nr_kinds ? table_create() : NULL;

	if (!table)
		return;
	table_add_column(table, "EVENTS", false);
	table_add_column(table, "EVENTS/S", false);
	table_add_column(table, "FIRST (S)", false);
	table_add_column(table, "LAST (S)", false);
	table_add_column(table, "INSTANCE", true);
	table_add_column(table, "EVENT", true);
	table_need_columns(table);
	for (size_t i = 0; i < e->nr_kinds; i++) {
		const struct kind *kind = &e->kinds[i];

		table_add_cell(table, text_count(kind->n).s);
		add_rate(table, e, kind->n);
		add_second(table, kind->first_ns);
		add_second(table, kind->last_ns);
		table_add_cell(table, instance_of(kind));
		table_add_cell(table, event_of(kind).s);
	}
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
}

static size_t nr_shown(const struct events *e)
{
	const size_t top = e->base.options.top;

	return top && top < e->nr_hits ? top : e->nr_hits;
}

static struct text function_of(const struct events *e, const struct hits *hits)
{
	return sidecar_function_text(trace_reader_sidecar(e->base.replay->reader), hits->ip);
}

static void print_hits(const struct events *e, FILE *out)
{
	const size_t shown = nr_shown(e);
	struct table *table = shown ? table_create() : NULL;

	if (!table)
		return;
	table_add_column(table, "HITS", false);
	table_add_column(table, "HITS/S", false);
	table_add_column(table, "INSTANCE", true);
	table_add_column(table, "FUNCTION", true);
	table_need_columns(table);
	for (size_t i = 0; i < shown; i++) {
		table_add_cell(table, text_count(e->hits[i].n).s);
		add_rate(table, e, e->hits[i].n);
		table_add_cell(table, instance_of(&e->kinds[e->hits[i].kind]));
		table_add_cell(table, function_of(e, &e->hits[i]).s);
	}
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
	if (shown < e->nr_hits)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(e->nr_hits - shown).s);
}

/* The view of `sonde events` that shows calls as such, if all is of one tracer. Its filters are on
 * calls. */
static const char *view_of(const struct events *e)
{
	const struct event_choice *choice = &e->base.replay->view->choice;
	const bool of_calls = e->nr_kinds && !choice->events.n && !choice->filters.n;
	bool graph = of_calls, syscalls = of_calls;

	for (size_t i = 0; i < e->nr_kinds; i++) {
		graph &= e->kinds[i].instance && graph_is_of(e->kinds[i].instance);
		syscalls &= e->kinds[i].instance && syscall_is_of(e->kinds[i].instance);
	}
	return graph ? " --graph" : syscalls ? " --syscalls" : "";
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct events *e = (const struct events *)base;
	const struct trace_window window = {.records = e->n,
					    .first_ns = e->first_ns,
					    .last_ns = e->last_ns,
					    .has_begin = replay_has_begin(base->replay) &&
							 replay_has_early(base->replay)};

	text_print_head(out, base->replay->reader, &window, LABEL);
	replay_print_losses(base->replay, out, LABEL);
	text_print_missing(out, base->replay->reader, "the counts", LABEL);
	if (e->n) {
		fprintf(out, "%-*s", LABEL, "Next");
		command_print_events(out, base->replay, view_of(e), base->options.dir);
		fputc('\n', out);
	}
	print_kinds(e, out);
	print_hits(e, out);
}

static int put_kinds(const struct events *e, json_t *array)
{
	int failed = 0;

	for (size_t i = 0; i < e->nr_kinds; i++) {
		const struct kind *kind = &e->kinds[i];

		failed |= json_array_append_new(
			array, json_pack("{ss ss so sI sI}", "instance", instance_of(kind), "event",
					 event_of(kind).s, "events", json_from_count(kind->n),
					 "first_ns", (json_int_t)kind->first_ns, "last_ns",
					 (json_int_t)kind->last_ns));
	}
	return failed;
}

static int put_hits(const struct events *e, json_t *array)
{
	int failed = 0;

	for (size_t i = 0; i < nr_shown(e); i++)
		failed |= json_array_append_new(
			array,
			json_pack("{ss so so}", "instance", instance_of(&e->kinds[e->hits[i].kind]),
				  "function", json_from_text(function_of(e, &e->hits[i]).s), "hits",
				  json_from_count(e->hits[i].n)));
	return failed;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct events *e = (const struct events *)base;
	json_t *kinds = json_array(), *hits = json_array();
	int failed = put_kinds(e, kinds) | put_hits(e, hits);

	return failed | replay_put_bound(base->replay, root) |
	       json_object_set_new(root, "events", kinds) | json_object_set_new(root, "hits", hits);
}

const struct analysis_ops events_analysis = {
	.about = "events by instance and kind; hits of the function tracer by function",
	.size = sizeof(struct events),
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
