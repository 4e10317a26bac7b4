/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The data of a report: what the analyses say in one pass, and tables of call sites and caches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/sites.h"
#include "formats/analysis/survivors.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/cli/cli.h"
#include "formats/export/stacks.h"
#include "formats/groups/groups.h"
#include "formats/html/calls.h"
#include "formats/html/html.h"
#include "formats/html/page.h"
#include "formats/report/trace-text.h"

enum { TIMELINE_STEPS = 1024, MAX_LEAKS = 2000 };

/* The analyses whose JSON is data as it is; the page knows their keys. */
static const struct part {
	const char *name;
	size_t top;
} parts[] = {{"overview", 0}, {"timeline", TIMELINE_STEPS}, {"leaks", MAX_LEAKS}};
enum { NR_PARTS = sizeof(parts) / sizeof(parts[0]) };

/* The tables. An analysis of its own, as `sonde report` shows it to browsers only. */
struct tables {
	struct analysis base;
	struct groups *callsites, *caches;
	struct stacks *others; /* of events of other tracers */
	struct call_times *calls;
	int64_t first_ns, last_ns; /* of these events; INT64_MAX, INT64_MIN: there is none */
	struct u64_map origins;    /* by hash_of(): the index of an origin */
};

struct page {
	const char *verb, *dir;
	struct replay replay;
	struct tables tables;
	struct analysis *analyses[NR_PARTS + 1]; /* the tables last */
	struct export_file *file;
};

/* --- reading --------------------------------------------------------------------------------- */

static int begin(struct tables *t)
{
	static const struct grouping by_site = {{BY_CALLSITE, BY_CACHE, BY_MODULE}, 3};
	static const struct grouping by_cache = {{BY_CACHE}, 1};
	const struct replay *replay = t->base.replay;
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	if (!t->callsites)
		t->callsites = groups_create(&by_site, replay->heap, sidecar);
	if (!t->caches)
		t->caches = groups_create(&by_cache, replay->heap, sidecar);
	return t->callsites && t->caches ? 0 : -ENOMEM;
}

static int begin_window(struct analysis *base)
{
	struct tables *t = (struct tables *)base;

	if (begin(t))
		return -ENOMEM;
	groups_begin_peaks(t->callsites);
	groups_begin_peaks(t->caches);
	return 0;
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct tables *t = (struct tables *)base;
	const bool counted = base->replay->in_window;

	if (begin(t))
		return -ENOMEM;
	if (!change->object)
		return 0;
	if (groups_add(t->callsites, change, counted))
		return -ENOMEM;
	return groups_add(t->caches, change, counted);
}

static int add_call(struct tables *t, const struct event *event)
{
	struct error err;

	return call_times_add(t->calls, event, &err) ? -ENOMEM : 0;
}

/* Events of kmem are in the heap. A call is chosen by its entry. */
static int take_event(struct analysis *base, const struct event *event)
{
	struct tables *t = (struct tables *)base;

	if (kmem_class_is_known(event->class) || !base->replay->in_window)
		return 0;
	if (!replay_has_event(base->replay, event))
		return event_class_is_return(event->class) ? add_call(t, event) : 0;
	t->first_ns = event->ns < t->first_ns ? event->ns : t->first_ns;
	t->last_ns = event->ns > t->last_ns ? event->ns : t->last_ns;
	return stacks_add(t->others, event) ? -ENOMEM : add_call(t, event);
}

/* An origin's call site and cache, the latter as a key of groups. */
static uint64_t cache_key(const struct heap_origin *origin)
{
	return origin->cache ? origin->cache : (uint64_t)GROUP_NO_CACHE + origin->type;
}

static uint64_t hash_of(uint64_t call_site, uint64_t cache)
{
	return call_site ^ cache << 40;
}

static int finish(struct analysis *base)
{
	struct tables *t = (struct tables *)base;
	const struct heap *heap = base->replay->heap;
	const size_t known = heap_nr_origins(heap);

	if (begin(t) || call_times_finish(t->calls))
		return -ENOMEM;
	if (!base->replay->selects)
		groups_note_slabs(t->caches);
	for (uint32_t i = 0; i < base->replay->sites->n && i < known; i++) {
		const struct heap_origin *origin = heap_origin(heap, i);
		uint64_t key = hash_of(origin->call_site, cache_key(origin));
		uint32_t *index = u64_map_find(&t->origins, key);

		if (!index)
			index = u64_map_insert(&t->origins, key, NULL);
		if (!index)
			return -ENOMEM;
		*index = i;
	}
	return 0;
}

static const struct analysis_ops tables_ops = {.sites = true,
					       .begin_window = begin_window,
					       .event = take_event,
					       .change = change,
					       .finish = finish};

static int tables_init(struct tables *t, const struct replay *replay)
{
	*t = (struct tables){.base = {.ops = &tables_ops, .replay = replay},
			     .first_ns = INT64_MAX,
			     .last_ns = INT64_MIN};
	u64_map_init(&t->origins, sizeof(uint32_t));
	t->calls = call_times_create(replay->reader);
	return t->calls ? stacks_create(replay->reader, EXPORT_COUNT, &t->others, NULL) : -ENOMEM;
}

static void tables_deinit(struct tables *t)
{
	groups_destroy(t->callsites);
	groups_destroy(t->caches);
	stacks_destroy(t->others);
	call_times_destroy(t->calls);
	u64_map_deinit(&t->origins);
}

/* --- rows ------------------------------------------------------------------------------------ */

static const struct site *site_of(const struct tables *t, const struct group *group)
{
	const uint32_t *index = u64_map_find(&t->origins, hash_of(group->keys[0], group->keys[1]));
	const struct heap_origin *origin;

	if (!index)
		return NULL;
	origin = heap_origin(t->base.replay->heap, *index);
	if (origin->call_site != group->keys[0] || cache_key(origin) != group->keys[1])
		return NULL;
	return &t->base.replay->sites->all[*index];
}

/* Frees by the power of two of the life in ns, without the zeros at the end. */
static json_t *lives_json(const struct site *site)
{
	json_t *array = json_array();
	size_t n = LIFE_CLASSES;

	while (site && site->lives && n && !site->lives[n - 1])
		n--;
	for (size_t i = 0; site && site->lives && i < n; i++)
		json_array_append_new(array, json_from_count(site->lives[i]));
	return array;
}

/* The order is that of group_columns. */
static void add_sums(json_t *row, const struct group *group)
{
	const double wasted = measure_value(MEASURE_WASTED, group, 0);
	const double lifetime = measure_value(MEASURE_LIFETIME, group, 0);
	const uint64_t sums[] = {group->live_bytes, group->live_objects, whole_number(wasted),
				 group->peak_bytes, group->hits,         group->allocated,
				 group->requested,  group->frees,        group->cross_cpu};

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		json_array_append_new(row, json_from_count(sums[i]));
	json_array_append_new(row, json_from_count(whole_number(lifetime)));
}

#define SUM_COLUMNS                                                                        \
	"\"live\",\"objects\",\"wasted\",\"peak\",\"allocs\",\"allocated\",\"requested\"," \
	"\"frees\",\"cross\",\"lifetime\""

static json_t *site_row(const struct tables *t, const struct group *group)
{
	const struct site *site = site_of(t, group);
	json_t *row = json_array();

	json_array_append_new(row, json_from_address(group->keys[0]));
	for (size_t i = 0; i < 3; i++)
		json_array_append_new(row,
				      json_from_text(groups_key_text(t->callsites, group, i).s));
	json_array_append_new(row, json_integer(group->is_wrapper));
	add_sums(row, group);
	json_array_append_new(row,
			      site ? site_course_json(t->base.replay->sites, site) : json_array());
	json_array_append_new(row, lives_json(site));
	json_array_append_new(row, json_from_text(groups_source_text(t->callsites, group).s));
	return row;
}

static json_t *cache_row(const struct tables *t, const struct group *group)
{
	json_t *row = json_array();

	json_array_append_new(row, json_from_text(groups_key_text(t->caches, group, 0).s));
	add_sums(row, group);
	json_array_append_new(row, json_from_count(group->slab_bytes));
	return row;
}

/* ,"NAME":{"columns":[COLUMNS],"rows":[...]}; what backs other rows is left out. */
static int put_groups(struct page *page, const char *head, const struct groups *groups,
		      json_t *(*row)(const struct tables *t, const struct group *group))
{
	bool is_first = true;
	int ret = 0;

	export_text(page->file, head);
	for (size_t i = 0; !ret && i < groups_count(groups); i++) {
		const struct group *group = groups_get(groups, i);

		if (group->role != HEAP_PLAIN)
			continue;
		export_text(page->file, is_first ? "\n" : ",\n");
		ret = page_put(page->file, row(&page->tables, group));
		is_first = false;
	}
	export_text(page->file, "]}");
	return ret;
}

static json_t *event_row(const struct sidecar *sidecar, const struct stack *stack)
{
	json_t *row = json_array();
	const unsigned int n = stack->nr_frames;

	json_array_append_new(row, json_from_text(stack_event_text(stack).s));
	for (unsigned int i = 1; i <= 2; i++)
		json_array_append_new(
			row,
			json_from_text(
				n < i ? ""
				      : sidecar_function_text(sidecar, stack->frames[n - i]).s));
	json_array_append_new(row, json_from_count(stack->sums[STACK_EVENTS]));
	return row;
}

static int put_events(struct page *page)
{
	const struct sidecar *sidecar = trace_reader_sidecar(page->replay.reader);
	size_t n;
	const struct stack *stacks = stacks_finish(page->tables.others, &n);
	int ret = 0;

	export_text(page->file, ",\n\"events\":{\"columns\":[\"event\",\"function\",\"caller\","
				"\"count\"],\"rows\":[");
	for (size_t i = 0; !ret && i < n; i++) {
		export_text(page->file, i ? ",\n" : "\n");
		ret = page_put(page->file, event_row(sidecar, &stacks[i]));
	}
	export_text(page->file, "]}");
	return ret;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* The time from the first event of other tracers to the last. */
static uint64_t others_ns(const struct tables *t)
{
	return t->first_ns < t->last_ns ? (uint64_t)t->last_ns - (uint64_t)t->first_ns : 0;
}

static json_t *trace_json(const struct page *page)
{
	const struct replay *replay = &page->replay;
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const struct trace_info *info = sidecar ? &sidecar->info : &(struct trace_info){0};
	json_t *root = json_object();
	int failed = text_json_losses(root, replay->reader) | replay_put_json(replay, root) |
		     replay_put_origin(replay, root);

	failed |= json_object_set_new(root, "dir", json_from_text(page->dir));
	failed |= json_object_set_new(root, "guest", json_from_text(info->banner));
	failed |= json_object_set_new(root, "build_id", json_from_text(info->build_id));
	failed |= json_object_set_new(root, "mode", json_from_text(info->mode));
	failed |= json_object_set_new(
		root, "from_boot",
		json_boolean((replay->instance ? replay_is_from_first(replay)
					       : sidecar_is_from_boot(sidecar) &&
							 replay_has_early(replay)) &&
			     replay_has_begin(replay)));
	failed |= json_object_set_new(root, "time_chosen",
				      json_boolean(replay_has_chosen_time(replay)));
	failed |= json_object_set_new(root, "selects", json_boolean(replay->selects));
	failed |= json_object_set_new(root, "records", json_from_count(replay->records));
	failed |= json_object_set_new(root, "others", json_from_count(replay->others));
	failed |= json_object_set_new(root, "others_ns", json_from_count(others_ns(&page->tables)));
	failed |= json_object_set_new(root, "vcpus",
				      json_from_count(trace_reader_nr_vcpus(replay->reader)));
	failed |= json_object_set_new(root, "first_ns", json_integer(replay->span.begin_ns));
	failed |= json_object_set_new(root, "duration_ns",
				      json_from_count(replay_duration_ns(replay)));
	if (survivors_are_short(replay->sites))
		failed |= json_object_set_new(root, "growth_takes",
					      json_string(survivors_time_text(replay->sites)));
	failed |= json_object_set_new(root, "lacks_init",
				      json_boolean(survivors_lack_init(replay->sites)));
	if (!failed)
		return root;
	json_decref(root);
	return NULL;
}

static int put_parts(struct page *page)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < NR_PARTS; i++) {
		json_t *part = json_object();

		export_printf(page->file, ",\n\"%s\":", parts[i].name);
		if (!part || page->analyses[i]->ops->put_json(page->analyses[i], part)) {
			json_decref(part);
			return -ENOMEM;
		}
		ret = page_put(page->file, part);
	}
	return ret;
}

static int put_data(struct page *page)
{
	int ret;

	export_text(page->file, "{\"kind\":\"report\",\n\"trace\":");
	ret = page_put(page->file, trace_json(page));
	if (!ret)
		ret = put_parts(page);
	if (!ret)
		ret = put_groups(page,
				 ",\n\"sites\":{\"columns\":[\"address\",\"site\",\"cache\","
				 "\"module\",\"wrapper\"," SUM_COLUMNS
				 ",\"course\",\"lives\",\"source\"],\"rows\":[",
				 page->tables.callsites, site_row);
	if (!ret)
		ret = put_groups(page,
				 ",\n\"caches\":{\"columns\":[\"cache\"," SUM_COLUMNS
				 ",\"slabs\"],\"rows\":[",
				 page->tables.caches, cache_row);
	if (!ret)
		ret = put_events(page);
	if (!ret)
		ret = call_times_put(page->tables.calls, page->file);
	export_text(page->file, "}");
	return ret;
}

static int write_page(struct page *page, struct error *err)
{
	char nonce[33];
	int ret = page_begin(page->file, nonce);

	if (!ret)
		ret = put_data(page);
	if (ret)
		return error_set(err, -ret, "%s", strerror(-ret));
	page_end(page->file, nonce);
	return export_file_finish(page->file, err);
}

static int create_analyses(struct page *page, struct error *err)
{
	int ret = analysis_check_heap(&page->replay, err);

	for (size_t i = 0; !ret && i < NR_PARTS; i++) {
		const struct analysis_options options = {.dir = page->dir, .top = parts[i].top};

		ret = analysis_create(analysis_find(parts[i].name), &page->replay, &options,
				      &page->analyses[i], err);
	}
	page->analyses[NR_PARTS] = &page->tables.base;
	if (!ret && tables_init(&page->tables, &page->replay))
		ret = error_set(err, ENOMEM, "out of memory");
	return ret;
}

static int run(struct page *page, const struct html_target *target, struct error *err)
{
	int ret = export_file_create(target->path, target->replace, &page->file, err);

	if (ret)
		return ret;
	ret = create_analyses(page, err);
	if (!ret)
		ret = replay_run(&page->replay, page->analyses, NR_PARTS + 1, err);
	return ret ? ret : write_page(page, err);
}

int html_report(const char *verb, const char *dir, const struct replay_view *view,
		const struct html_target *target)
{
	struct page page = {.verb = verb, .dir = dir};
	struct error err;
	int ret = replay_open(&page.replay, dir, view, &err);

	if (ret) {
		ret = cli_error(verb, &err);
	} else if (replay_select(&page.replay, &err)) {
		ret = cli_usage_error(verb, &err);
	} else {
		if (run(&page, target, &err))
			ret = cli_error(verb, &err);
		else
			analysis_print_notes(verb, "", "--time", &page.replay,
					     &(struct analysis_options){0});
		for (size_t i = 0; i < NR_PARTS; i++)
			analysis_destroy(page.analyses[i]);
		tables_deinit(&page.tables);
		export_file_destroy(page.file);
	}
	replay_close(&page.replay);
	return ret;
}
