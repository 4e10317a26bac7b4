/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/report/progress.h"
#include "formats/report/since-init.h"
#include "formats/analysis/sites.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/report/parts.h"
#include "formats/report/trace-text.h"

/* How many events before its turn the heap is told of one. */
enum { SOON = 12 };

/* What a replay owns. */
struct replay_parts {
	bool owns_reader;
	const char *dir;              /* or NULL */
	struct analysis **of_events;  /* those that are told of events */
	struct analysis **of_changes; /* and those of changes of the heap */
	size_t nr_of_events, nr_of_changes;
	bool looks_for_init; /* where it begins may not be known yet */
	bool needs_tasks;    /* an analysis groups by task */
	bool only_heap;      /* of an event, only the heap is to know, whenever it was */
	bool printed_losses; /* since finish() */
	struct progress progress;
};

/* --- opening --------------------------------------------------------------------------------- */

int replay_begin(struct replay *replay, struct trace_reader *reader, const struct replay_view *view,
		 struct error *err)
{
	*replay = (struct replay){.view = view, .reader = reader, .from_ns = view->time.from_ns};
	replay->parts = calloc(1, sizeof(*replay->parts));
	if (!replay->parts)
		return error_set(err, ENOMEM, "out of memory");
	replay->parts->looks_for_init = view->follow && view->since_init;
	replay->span.seen_ns = INT64_MIN;
	return 0;
}

int replay_open(struct replay *replay, const char *dir, const struct replay_view *view,
		struct error *err)
{
	struct trace_reader *reader;
	int ret;

	*replay = (struct replay){0};
	ret = trace_reader_open(dir, &reader, err);
	if (ret)
		return ret;
	ret = replay_begin(replay, reader, view, err);
	if (ret) {
		trace_reader_close(reader);
		return ret;
	}
	replay->parts->owns_reader = true;
	replay->parts->dir = dir;
	if (view->kernel)
		ret = trace_reader_name_functions(reader, view->kernel, err);
	if (!ret && (view->lines || view->debug_file))
		ret = trace_reader_add_lines(reader, view->debug_file, err);
	if (ret)
		error_prefix(err, "%s: ", dir);
	return ret;
}

void replay_close(struct replay *replay)
{
	struct replay_parts *parts = replay->parts;

	if (!parts)
		return;
	sites_destroy(replay->sites);
	heap_destroy(replay->heap);
	event_selection_destroy(replay->chosen.selection);
	event_filters_deinit(&replay->chosen.filters);
	event_texts_destroy(replay->chosen.texts);
	if (parts->owns_reader)
		trace_reader_close(replay->reader);
	free(parts->of_events);
	free(parts->of_changes);
	free(parts);
}

/* --- where init begins ----------------------------------------------------------------------- */

static int find_init(struct replay *replay, struct error *err)
{
	const int64_t wanted_ns = replay->view->time.from_ns;
	int ret;

	if (!replay->parts->dir)
		return 0;
	ret = since_init_find(replay->parts->dir, trace_reader_sidecar(replay->reader),
			      &replay->init_ns, err);
	if (!ret)
		replay->from_ns = replay->init_ns > wanted_ns ? replay->init_ns : wanted_ns;
	return ret;
}

/* While a trace is being recorded, init may not have begun: nothing is in the window then. */
static int find_init_so_far(struct replay *replay, struct error *err)
{
	int ret = find_init(replay, err);

	if (ret != -ENOENT)
		return ret;
	replay->init_ns = INT64_MIN;
	replay->from_ns = INT64_MAX;
	return 0;
}

static void look_for_init(struct replay *replay, const struct kmem_record *record)
{
	if (record->timestamp > replay->init_ns &&
	    since_init_frees(trace_reader_sidecar(replay->reader), record))
		replay->init_moved = true;
}

/* --- the pass -------------------------------------------------------------------------------- */

static bool concerns_selected(const struct replay *replay, const struct heap_change *change)
{
	return change->object ? change->object->selected : !replay->selects;
}

static int deliver(void *arg, const struct heap_change *change)
{
	const struct replay *replay = arg;
	const struct replay_parts *parts = replay->parts;
	int ret = 0;

	if (!concerns_selected(replay, change)) {
		if (replay->sites)
			sites_note_init(replay->sites, change);
		return 0;
	}
	if (replay->sites)
		ret = sites_add(replay->sites, change);
	for (size_t i = 0; !ret && i < parts->nr_of_changes; i++)
		ret = parts->of_changes[i]->ops->change(parts->of_changes[i], change);
	return ret;
}

static bool is_selected(const struct replay *replay, const struct event *event,
			const struct kmem_record *record, uint64_t call_site)
{
	const struct replay_view *view = replay->view;

	if (record->event_id != KMEM_EVENT_ALLOC)
		return false;
	if (view->type < KMEM_TYPE_COUNT && record->type_id != view->type)
		return false;
	return replay_has_allocation(replay, event, call_site);
}

static inline void note_time(struct replay *replay, int64_t ns)
{
	if (ns > replay->last_ns && replay->records) {
		replay->records++;
		replay->last_ns = ns;
		return;
	}
	if (!replay->records++) {
		replay->first_ns = replay->last_ns = ns;
		replay_begin_span(replay, ns);
	}
	if (ns < replay->first_ns)
		replay->first_ns = ns;
	if (ns < replay->span.begin_ns)
		replay->span.begin_ns = ns;
}

/* What is live before is what the window begins with. */
static int begin_window(struct replay *replay)
{
	int ret = replay->sites ? sites_begin_window(replay->sites) : 0;

	for (size_t i = 0; !ret && i < replay->nr_analyses; i++) {
		struct analysis *analysis = replay->analyses[i];

		if (analysis->ops->begin_window)
			ret = analysis->ops->begin_window(analysis);
	}
	return ret;
}

/* Of a record, before it changes the heap. */
static int enter_window(struct replay *replay, int64_t ns)
{
	if (!replay->in_window) {
		replay->span.has_before = true;
		return 0;
	}
	note_time(replay, ns);
	return replay->records == 1 && replay->span.has_before ? begin_window(replay) : 0;
}

static int take_record(struct replay *replay, const struct event *event)
{
	const struct replay_parts *parts = replay->parts;
	const struct kmem_record *record = kmem_record_in(event);
	bool selected = true;
	uint64_t call_site;

	if (!record) {
		replay->others += replay->in_window;
		return 0;
	}
	if (parts->looks_for_init)
		look_for_init(replay, record);
	if (enter_window(replay, event->ns))
		return -ENOMEM;
	if (!replay->keeps_heap)
		return 0;
	if (parts->needs_tasks && record->event_id == KMEM_EVENT_ALLOC &&
	    heap_set_task(replay->heap, event))
		return -ENOMEM;
	if (heap_charge(replay->heap, event, record, &call_site))
		return -ENOMEM;
	if (replay->selects) {
		selected = is_selected(replay, event, record, call_site);
		replay->nr_selected += selected;
	}
	return heap_apply_charged(replay->heap, event, record, call_site, selected);
}

static int tell_of_event(const struct replay *replay, const struct event *event)
{
	const struct replay_parts *parts = replay->parts;
	int ret = 0;

	for (size_t i = 0; !ret && i < parts->nr_of_events; i++)
		ret = parts->of_events[i]->ops->event(parts->of_events[i], event);
	return ret;
}

/* Before an event is a record or another one. */
static inline void enter_time(struct replay *replay, int64_t ns)
{
	replay->in_window = ns >= replay->from_ns;
	if (!replay->in_window)
		trace_outside_before(&replay->outside, ns);
}

/* Of another tracer or instance. */
static int take_others(struct replay *replay, const struct trace_run *run)
{
	for (size_t i = 0; i < run->n; i++) {
		const struct event event = trace_run_event(run, i);

		enter_time(replay, event.ns);
		if (tell_of_event(replay, &event))
			return -ENOMEM;
		replay->others += replay->in_window;
	}
	return 0;
}

static void prefetch(const struct replay *replay, const struct trace_run *run, size_t i)
{
	const struct event event = trace_run_event(run, i);

	heap_prefetch(replay->heap, kmem_record_in(&event));
}

static int take_own(struct replay *replay, const struct trace_run *run)
{
	/* those of the run's stream that come soon may be at hand already */
	const size_t end = run->n + run->more;

	for (size_t i = 0; run->is_new && i < SOON && i < end; i++)
		prefetch(replay, run, i);
	for (size_t i = 0; i < run->n; i++) {
		const struct event event = trace_run_event(run, i);

		if (i + SOON < end)
			prefetch(replay, run, i + SOON);
		enter_time(replay, event.ns);
		if (tell_of_event(replay, &event) || take_record(replay, &event))
			return -ENOMEM;
	}
	return 0;
}

/* As take_own(), where the heap is all that wants to know, and all time is in the window. */
static int take_records(struct replay *replay, const struct trace_run *run)
{
	struct heap *const heap = replay->heap;
	const struct stream_event *const events = run->events;
	const uint8_t *const bytes = run->bytes;
	const size_t n = run->n, end = n + run->more;
	const unsigned int vcpu = run->vcpu;

	for (size_t i = 0; run->is_new && i < SOON && i < end; i++)
		heap_prefetch(heap, trace_run_bytes(run, i));
	for (size_t i = 0; i < n; i++) {
		if (i + 2 * SOON < end)
			heap_prefetch_place(heap, (const void *)(bytes + events[i + 2 * SOON].at));
		if (i + SOON < end)
			heap_prefetch(heap, (const void *)(bytes + events[i + SOON].at));
		note_time(replay, events[i].ns);
		if (heap_apply(heap, (const void *)(bytes + events[i].at), vcpu, true))
			return -ENOMEM;
	}
	return 0;
}

/* How many of the records are in the order of time, also with those before. */
static size_t count_rising(const struct replay *replay, const struct kmem_brief *briefs, size_t n)
{
	int64_t last_ns = replay->last_ns;
	size_t i = 0;

	for (; i < n && briefs[i].ns >= last_ns; i++)
		last_ns = briefs[i].ns;
	return i;
}

/* note_time() of the first ones, whose number it returns. */
static size_t note_times(struct replay *replay, const struct kmem_brief *briefs, size_t n)
{
	const size_t rising = replay->records ? count_rising(replay, briefs, n) : 0;

	if (!rising) {
		note_time(replay, briefs->ns);
		return 1;
	}
	replay->records += rising;
	replay->last_ns = briefs[rising - 1].ns;
	return rising;
}

/* As take_records(), where only the sites are told of changes. */
static int take_briefs(struct replay *replay, const struct trace_run *run)
{
	struct sites_briefs briefs = {
		.first = run->briefs, .vcpu = run->vcpu, .is_new = run->is_new};
	size_t left = run->n;

	replay->in_window = true;
	for (; left; left -= briefs.n, briefs.first += briefs.n, briefs.is_new = false) {
		briefs.n = note_times(replay, briefs.first, left);
		briefs.more = left - briefs.n + run->more;
		if (sites_take_briefs(replay->sites, replay->heap, &briefs))
			return -ENOMEM;
	}
	return 0;
}

/* All of it is of one stream, so of one instance. */
static int take_run(struct replay *replay, const struct trace_run *run)
{
	progress_count(&replay->parts->progress, run->n);
	if (run->briefs)
		return take_briefs(replay, run);
	if (run->instance != replay->instance)
		return take_others(replay, run);
	/* The first run sets in_window. */
	return replay->parts->only_heap && replay->records ? take_records(replay, run)
							   : take_own(replay, run);
}

static void note_seen(struct span *span, const struct trace_run *run)
{
	const size_t last = run->n - 1;
	const int64_t ns = run->briefs ? run->briefs[last].ns : run->events[last].ns;

	if (ns > span->seen_ns)
		span->seen_ns = ns;
}

/* Returns 0 at the end of what there is. */
static int take_runs(struct replay *replay, struct error *err)
{
	const int64_t end_ns = replay->view->time.to_ns;
	struct trace_run run;
	int ret;

	while ((ret = trace_reader_next_run(replay->reader, end_ns, &run, err)) > 0) {
		if (trace_run_ns(&run) >= end_ns) {
			trace_outside_after(&replay->outside, trace_run_ns(&run));
			return 0;
		}
		note_seen(&replay->span, &run);
		if (take_run(replay, &run))
			return error_set(err, ENOMEM, "out of memory");
	}
	return ret;
}

static bool has_tasks(const struct grouping *by)
{
	bool has = false;

	for (size_t i = 0; i < by->n; i++)
		has |= by->by[i] == BY_TASK;
	return has;
}

/* Who is told of what. A replay that follows a trace begins several times. */
static int list_analyses(struct replay *replay, struct analysis **analyses, size_t n)
{
	struct replay_parts *parts = replay->parts;

	replay->analyses = analyses;
	replay->nr_analyses = n;
	free(parts->of_events);
	free(parts->of_changes);
	parts->nr_of_events = parts->nr_of_changes = 0;
	parts->of_events = calloc(n + 1, sizeof(*parts->of_events));
	parts->of_changes = calloc(n + 1, sizeof(*parts->of_changes));
	if (!parts->of_events || !parts->of_changes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (analyses[i]->ops->event)
			parts->of_events[parts->nr_of_events++] = analyses[i];
		if (analyses[i]->ops->change && !analyses[i]->goes_by_sites)
			parts->of_changes[parts->nr_of_changes++] = analyses[i];
		replay->keeps_heap |= analysis_is_of_heap(analyses[i]->ops);
		parts->needs_tasks |= has_tasks(&analyses[i]->options.by);
	}
	return 0;
}

static struct sites *create_sites(const struct replay *replay)
{
	return sites_create(&(struct sites_source){.heap = replay->heap,
						   .sidecar = trace_reader_sidecar(replay->reader),
						   .selects = replay->selects,
						   .lacks_frees = replay_lacks_frees(replay),
						   .from_first = replay_is_from_first(replay),
						   .in_window = &replay->in_window,
						   .records = &replay->records,
						   .first_ns = &replay->span.begin_ns,
						   .last_ns = &replay->span.end_ns});
}

/* What the analyses work on. */
static int make_heap(struct replay *replay, struct analysis **analyses, size_t n)
{
	bool needs_sites = false;
	int ret = 0;

	replay->heap = heap_create(trace_reader_sidecar(replay->reader), deliver, replay);
	if (replay->heap && replay->ignores_chains)
		heap_ignore_chains(replay->heap);
	for (size_t i = 0; i < n; i++)
		needs_sites |= analyses[i]->ops->sites;
	if (replay->heap && needs_sites)
		replay->sites = create_sites(replay);
	if (!replay->heap || (needs_sites && !replay->sites))
		return -ENOMEM;
	for (size_t i = 0; !ret && i < n; i++)
		if (analyses[i]->ops->begin)
			ret = analyses[i]->ops->begin(analyses[i]);
	return ret;
}

static bool wants_only_heap(const struct replay *replay)
{
	const struct replay_parts *parts = replay->parts;
	const struct trace_instance *instance = replay->instance;

	for (size_t i = 0; instance && i < instance->nr_classes; i++)
		if (!kmem_class_is_known(&instance->classes[i]))
			return false;
	return replay->keeps_heap && !parts->nr_of_events && !parts->looks_for_init &&
	       !parts->needs_tasks && !replay->selects && replay_has_begin(replay) &&
	       !(instance && kmem_has_chains(instance));
}

static bool is_told_sites_only(const struct replay *replay)
{
	return replay->sites && !replay->selects && !replay->parts->nr_of_changes;
}

static int begin(struct replay *replay, struct analysis **analyses, size_t n, struct error *err)
{
	int ret = replay->heap ? 0 : make_heap(replay, analyses, n);

	if (ret || list_analyses(replay, analyses, n))
		return error_set(err, ENOMEM, "out of memory");
	/* deliver() would do no more */
	if (is_told_sites_only(replay))
		heap_set_fn(replay->heap, sites_add, replay->sites);
	replay->parts->only_heap = wants_only_heap(replay);
	return 0;
}

static int finish(struct replay *replay, struct error *err)
{
	int ret = 0;

	replay_end_span(replay);
	if (!replay->records && replay->span.has_before)
		ret = begin_window(replay);
	if (!ret && replay->sites)
		ret = sites_finish(replay->sites);
	replay->parts->printed_losses = false;
	for (size_t i = 0; !ret && i < replay->nr_analyses; i++) {
		struct analysis *analysis = replay->analyses[i];

		if (analysis->ops->finish)
			ret = analysis->ops->finish(analysis);
	}
	return ret ? error_set(err, -ret, "out of memory") : 0;
}

int replay_run(struct replay *replay, struct analysis **analyses, size_t n, struct error *err)
{
	int ret = begin(replay, analyses, n, err);

	if (!ret && replay->view->since_init)
		ret = find_init(replay, err);
	if (ret)
		return ret;
	if (replay->parts->dir)
		trace_reader_read_ahead(replay->reader, TRACE_READER_ALL_CPUS);
	if (replay->parts->only_heap && is_told_sites_only(replay) && replay_has_begin(replay))
		trace_reader_read_briefs(replay->reader, replay->instance);
	progress_begin(&replay->parts->progress, replay->reader);
	ret = take_runs(replay, err);
	progress_end(&replay->parts->progress);
	return ret ? ret : finish(replay, err);
}

int replay_follow(struct replay *replay, struct analysis **analyses, size_t n, struct error *err)
{
	const bool is_first = !replay->heap;
	int ret = begin(replay, analyses, n, err), alive;

	if (!ret && is_first && replay->view->since_init)
		ret = find_init_so_far(replay, err);
	alive = ret ? ret : trace_reader_follow(replay->reader, err);
	ret = alive < 0 ? alive : take_runs(replay, err);
	if (!ret)
		ret = finish(replay, err);
	return ret ? ret : alive;
}

void replay_print_losses(const struct replay *replay, FILE *out, int indent)
{
	replay->parts->printed_losses = true;
	text_print_losses(out, replay->reader, indent);
	replay_print_share(replay, out, indent);
	text_print_gaps(out, replay->reader, indent);
}

bool replay_has_printed_losses(const struct replay *replay)
{
	return replay->parts->printed_losses;
}
