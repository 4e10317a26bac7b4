/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/progress.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/report/event-selection.h"

/* What a replay owns. */
struct replay_parts {
	bool owns_reader;
	const char *dir; /* or NULL */
	struct event_texts *texts;
	struct event_filter *filter;
	struct event_selection *selection; /* NULL: all allocations */
	bool needs_heap;                   /* an analysis is told of changes */
	bool needs_tasks;                  /* an analysis groups by task */
	struct progress progress;
};

/* --- opening --------------------------------------------------------------------------------- */

int replay_begin(struct replay *replay, struct trace_reader *reader, const struct replay_view *view,
		 struct error *err)
{
	*replay = (struct replay){.view = view, .reader = reader, .from_ns = view->time.from_ns};
	replay->parts = calloc(1, sizeof(*replay->parts));
	return replay->parts ? 0 : error_set(err, ENOMEM, "out of memory");
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
	if (ret)
		error_prefix(err, "%s: ", dir);
	return ret;
}

void replay_close(struct replay *replay)
{
	struct replay_parts *parts = replay->parts;

	if (!parts)
		return;
	heap_destroy(replay->heap);
	event_selection_destroy(parts->selection);
	event_filter_destroy(parts->filter);
	event_texts_destroy(parts->texts);
	if (parts->owns_reader)
		trace_reader_close(replay->reader);
	free(parts);
}

/* --- what is asked for ----------------------------------------------------------------------- */

static bool is_kmem(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++) {
		if (kmem_class_is_known(&instance->classes[i]))
			return true;
	}
	return false;
}

static int find_instance(struct replay *replay, struct error *err)
{
	const char *name = replay->view->instance, *names[TRACE_INSTANCES_MAX + 1];
	size_t n, known = 0;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	for (size_t i = 0; i < n; i++) {
		if (name && !replay->chosen && !strcmp(all[i].name, name))
			replay->chosen = &all[i];
		if (known < TRACE_INSTANCES_MAX)
			names[known++] = all[i].name;
		if (!is_kmem(&all[i]))
			continue;
		replay->nr_instances++;
		if (!replay->instance && (!name || replay->chosen == &all[i]))
			replay->instance = &all[i];
	}
	names[known] = NULL;
	if (!name || replay->chosen)
		return 0;
	if (!known)
		return error_set(err, ENOENT, "--instance: the trace has no instances");
	return error_set(err, ENOENT, "--instance takes %s, not '%s'", text_words(names).s, name);
}

static int bind_filter(struct replay *replay, struct error *err)
{
	struct replay_parts *parts = replay->parts;
	const struct replay_view *view = replay->view;
	struct event_wish wish = {.vcpus = &view->vcpus};
	int ret = 0;

	if (view->filter)
		ret = event_filter_parse(view->filter, &parts->filter, err);
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(replay->reader), &parts->texts, err);
	wish.filter = parts->filter;
	if (ret || !replay->instance)
		return ret;
	return event_selection_create(&wish, replay->instance, 1, parts->texts, &parts->selection,
				      err);
}

int replay_select(struct replay *replay, struct error *err)
{
	const struct replay_view *view = replay->view;
	int ret = cli_vcpus_check(&view->vcpus, trace_reader_vcpu_end(replay->reader), err);

	if (!ret)
		ret = find_instance(replay, err);
	replay->selects = view->filter || view->vcpus.some || view->type < KMEM_TYPE_COUNT;
	if (!ret && (view->filter || view->vcpus.some))
		ret = bind_filter(replay, err);
	return ret;
}

/* --- where init begins ----------------------------------------------------------------------- */

/* The kernel frees the memory of its own initialisation last, then runs init (init/main.c). */
static bool frees_init_memory(const struct sidecar *sidecar, const struct kmem_record *record)
{
	return record->event_id == KMEM_EVENT_FREE && record->type_id == KMEM_TYPE_PAGES &&
	       !strcmp(sidecar_function_text(sidecar, record->call_site).s, "free_reserved_area");
}

static int search_init(struct replay *replay, struct trace_reader *reader, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	struct kmem_record record;
	struct event event;
	bool found = false;
	int ret;

	while ((ret = trace_reader_next(reader, &event, err)) > 0) {
		if (!kmem_record_of(&event, &record) || !frees_init_memory(sidecar, &record))
			continue;
		replay->from_ns = event.ns;
		found = true;
	}
	if (!ret && !found)
		ret = error_set(err, ENOENT,
				"--since init: no pages were freed by free_reserved_area(), so "
				"nothing says when init began");
	return ret;
}

/* In a pass of its own: whether a free of such memory was the last one shows at the end. */
static int find_init(struct replay *replay, struct error *err)
{
	struct trace_reader *reader;
	int ret;

	if (!replay->parts->dir)
		return 0;
	ret = trace_reader_open(replay->parts->dir, &reader, err);
	if (ret)
		return ret;
	trace_reader_read_ahead(reader, TRACE_READER_ALL_CPUS);
	ret = search_init(replay, reader, err);
	trace_reader_close(reader);
	return ret;
}

/* --- the pass -------------------------------------------------------------------------------- */

static bool concerns_selected(const struct replay *replay, const struct heap_change *change)
{
	return change->object ? change->object->selected : !replay->selects;
}

static int deliver(void *arg, const struct heap_change *change)
{
	struct replay *replay = arg;
	int ret = 0;

	if (!concerns_selected(replay, change))
		return 0;
	for (size_t i = 0; !ret && i < replay->nr_analyses; i++) {
		struct analysis *analysis = replay->analyses[i];

		if (analysis->ops->change)
			ret = analysis->ops->change(analysis, change);
	}
	return ret;
}

static bool is_selected(const struct replay *replay, const struct event *event,
			const struct kmem_record *record)
{
	const struct replay_view *view = replay->view;

	if (record->event_id != KMEM_EVENT_ALLOC)
		return false;
	if (view->type < KMEM_TYPE_COUNT && record->type_id != view->type)
		return false;
	return !replay->parts->selection || event_selection_has(replay->parts->selection, event);
}

static void note_time(struct replay *replay, int64_t ns)
{
	if (!replay->records++)
		replay->first_ns = replay->last_ns = ns;
	if (ns < replay->first_ns)
		replay->first_ns = ns;
	if (ns > replay->last_ns)
		replay->last_ns = ns;
}

static int take_record(struct replay *replay, const struct event *event)
{
	struct kmem_record record;
	bool selected;

	if (event->instance != replay->instance || !kmem_record_of(event, &record)) {
		replay->others += replay->in_window;
		return 0;
	}
	if (replay->in_window)
		note_time(replay, event->ns);
	if (!replay->parts->needs_heap)
		return 0;
	if (replay->parts->needs_tasks && record.event_id == KMEM_EVENT_ALLOC &&
	    heap_set_task(replay->heap, event))
		return -ENOMEM;
	selected = !replay->selects || is_selected(replay, event, &record);
	return heap_apply(replay->heap, &record, event->vcpu, selected);
}

static int take_event(struct replay *replay, const struct event *event)
{
	int ret = 0;

	replay->in_window = event->ns >= replay->from_ns;
	for (size_t i = 0; !ret && i < replay->nr_analyses; i++) {
		struct analysis *analysis = replay->analyses[i];

		if (analysis->ops->event)
			ret = analysis->ops->event(analysis, event);
	}
	return ret ? ret : take_record(replay, event);
}

static void prefetch(const struct replay *replay)
{
	const struct event *soon = trace_reader_soon(replay->reader);

	if (soon && soon->instance == replay->instance)
		heap_prefetch(replay->heap, soon);
}

/* Returns 0 at the end of what there is. */
static int take_events(struct replay *replay, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(replay->reader, &event, err)) > 0) {
		if (event.ns >= replay->view->time.to_ns)
			return 0;
		prefetch(replay);
		if (take_event(replay, &event))
			return error_set(err, ENOMEM, "out of memory");
		progress_count(&replay->parts->progress);
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

static int begin(struct replay *replay, struct analysis **analyses, size_t n, struct error *err)
{
	replay->analyses = analyses;
	replay->nr_analyses = n;
	for (size_t i = 0; i < n; i++) {
		replay->parts->needs_heap |= analyses[i]->ops->change != NULL;
		replay->parts->needs_tasks |= has_tasks(&analyses[i]->options.by);
	}
	if (replay->heap)
		return 0;
	replay->heap = heap_create(trace_reader_sidecar(replay->reader), deliver, replay);
	if (!replay->heap)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int finish(struct replay *replay, struct error *err)
{
	int ret = 0;

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
	progress_begin(&replay->parts->progress, replay->reader);
	ret = take_events(replay, err);
	progress_end(&replay->parts->progress);
	return ret ? ret : finish(replay, err);
}

int replay_follow(struct replay *replay, struct analysis **analyses, size_t n, struct error *err)
{
	int ret = begin(replay, analyses, n, err), alive;

	alive = ret ? ret : trace_reader_follow(replay->reader, err);
	ret = alive < 0 ? alive : take_events(replay, err);
	if (!ret)
		ret = finish(replay, err);
	return ret ? ret : alive;
}

uint64_t replay_duration_ns(const struct replay *replay)
{
	return (uint64_t)replay->last_ns - (uint64_t)replay->first_ns;
}

/* --- what is missing ------------------------------------------------------------------------- */

struct replay_bound replay_bound(const struct replay *replay)
{
	struct trace_losses losses;
	struct replay_bound bound = {0};

	trace_reader_losses(replay->reader, &losses);
	bound.objects = counters_lost(&losses.counters);
	bound.bytes = heap_most_bytes(replay->heap, bound.objects);
	bound.is_bounded = losses.known && !losses.unfinished && !trace_reader_cut(replay->reader);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind == COUNTER_GAP && losses.counters.v[id])
			bound.is_bounded = false;
	}
	return bound;
}

void replay_print_bound(const struct replay *replay, FILE *out, int indent)
{
	struct replay_bound bound = replay_bound(replay);

	if (!bound.is_bounded)
		fprintf(out,
			"%-*sunknown: as events are missing, live sums may be too high or too "
			"low\n",
			indent, "Bound");
	else if (bound.objects)
		fprintf(out,
			"%-*slive sums are at most %s too high, by at most %s, and lack at most as "
			"many\n",
			indent, "Bound", text_number(bound.objects, "object").s,
			text_bytes(bound.bytes).s);
}

int replay_put_json(const struct replay *replay, json_t *root)
{
	struct replay_bound bound = replay_bound(replay);
	json_t *object =
		json_pack("{sb so so}", "bounded", bound.is_bounded, "objects",
			  json_from_count(bound.objects), "bytes", json_from_count(bound.bytes));
	int failed = json_object_set_new(root, "bound", object);

	return failed |
	       json_object_set_new(root, "instance",
				   json_from_text(replay->instance ? replay->instance->name : ""));
}
