/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What another slab allocator would have held, beside what the guest's own did. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/arrays.h"
#include "formats/allocators/simulation.h"
#include "formats/allocators/told-calls.h"
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/heap/held-course.h"
#include "formats/heap/held.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

struct allocators {
	struct analysis base;
	struct model model;
	const char *unknown;  /* why nobody knows what the guest held; NULL: the trace says it */
	bool is_assumed;      /* the model is of the guest, but its allocator is not known */
	bool guesses_buckets; /* the model has them, the guest has not (buckets.c) */
	uint64_t copy_flags;  /* of memdup_user(); 0: not known */
	uint64_t wait_flag;   /* of allocations that may wait; 0: not known */
	uint64_t no_sheaf_flag; /* of allocations for which no sheaf is made; 0: not known */
	bool has_no_sheaves;    /* the guest's kmalloc(), yet */
	bool makes_sheaves;     /* for it */
	struct simulation *simulation;
	struct pending pending;
	uint64_t shrunk; /* the cache whose slabs the guest is giving back; 0: it is not */
	struct held_course guest, replayed;  /* bytes */
	struct heap_holdings held;           /* by the guest, at the end */
	size_t *order;                       /* caches, most pages first; at the end */
	size_t shown;
};

static const char *why_unknown(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	if (!replay->instance || !sidecar_is_whole(sidecar, replay->instance))
		return "only some of the allocations were traced";
	if (!replay_is_from_first(replay))
		return "the trace may lack the guest's first allocations";
	return replay_lacks_events(replay);
}

static int load_model(struct allocators *a, const struct sidecar *sidecar, const char *name,
		      struct error *err)
{
	const char *allocator = sidecar ? sidecar->info.slab_allocator : "";
	int ret;

	if (name && strcmp(name, MODEL_OF_GUEST) != 0)
		return model_load(name, &a->model, err);
	a->is_assumed = !*allocator;
	ret = model_of_guest(allocator, sidecar ? sidecar->info.banner : "", &a->model, err);
	a->has_no_sheaves = !ret && replay_is_from_first(a->base.replay) && a->model.cache.sheaf;
	return ret;
}

static uint64_t gfp_mask(const struct sidecar *sidecar, const char *name)
{
	for (size_t i = 0; i < sidecar->info.nr_gfp_names; i++)
		if (!strcmp(sidecar->info.gfp_names[i].name, name))
			return sidecar->info.gfp_names[i].mask;
	return 0;
}

/* A guest that has buckets names them itself. */
static void prepare_buckets(struct allocators *a, const struct sidecar *sidecar)
{
	uint64_t user, nowarn;

	a->guesses_buckets = sidecar && a->model.kmalloc_buckets;
	for (size_t i = 0; a->guesses_buckets && i < sidecar->nr_caches; i++)
		a->guesses_buckets = !buckets_of_cache(sidecar->caches[i].name);
	if (!a->guesses_buckets)
		return;
	user = gfp_mask(sidecar, "GFP_USER");
	nowarn = gfp_mask(sidecar, "__GFP_NOWARN");
	a->copy_flags = user && nowarn ? user | nowarn : 0;
}

static int init(struct analysis *base, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(base->replay->reader);
	struct allocators *a = (struct allocators *)base;
	int ret = load_model(a, sidecar, base->options.allocator, err);

	if (!ret)
		ret = simulation_create(&a->model, trace_reader_vcpu_end(base->replay->reader),
					&a->simulation, err);
	if (!ret)
		prepare_buckets(a, sidecar);
	if (!ret && replay_is_from_first(base->replay))
		simulation_from_start(a->simulation);
	if (!ret && sidecar && !strcmp(sidecar->info.slab_allocator, "slab"))
		simulation_follow_timer(a->simulation);
	if (sidecar) {
		a->wait_flag = gfp_mask(sidecar, "__GFP_DIRECT_RECLAIM");
		a->no_sheaf_flag = gfp_mask(sidecar, "__GFP_NO_OBJ_EXT");
	}
	return ret;
}

static void deinit(struct analysis *base)
{
	struct allocators *a = (struct allocators *)base;

	held_course_deinit(&a->guest);
	held_course_deinit(&a->replayed);
	simulation_destroy(a->simulation);
	heap_holdings_deinit(&a->held);
	free(a->order);
}

/* --- events ---------------------------------------------------------------------------------- */

/* What the guest holds for objects: slabs, and blocks of large kmalloc(). */
static uint64_t guest_bytes(const struct replay *replay)
{
	const struct heap_totals *totals = heap_totals(replay->heap);

	return totals->pages[HEAP_SLAB].bytes + totals->pages[HEAP_LARGE].bytes;
}

static const char *function_of(const struct allocators *a, uint64_t call_site)
{
	const struct sidecar_symbol *symbol =
		sidecar_symbol(trace_reader_sidecar(a->base.replay->reader), call_site);

	return symbol ? symbol->name : "";
}

static const char *buckets_of(const struct allocators *a, const struct kmem_record *record)
{
	if (!a->guesses_buckets || record->type_id != KMEM_TYPE_KMALLOC)
		return NULL;
	return buckets_of_call(function_of(a, record->call_site),
			       a->copy_flags && record->gfp_flags == a->copy_flags);
}

static unsigned int prefilled_for(const struct allocators *a, const struct kmem_record *record)
{
	if (!a->wait_flag || record->gfp_flags & a->wait_flag)
		return 0;
	return prefilled_for_call(function_of(a, record->call_site));
}

/* The first record that is not of making them comes behind them. */
static bool has_no_sheaf(struct allocators *a, const struct kmem_record *record)
{
	enum first_sheaves first;

	if (!a->has_no_sheaves || record->type_id != KMEM_TYPE_KMALLOC)
		return false;
	first = first_sheaves_for_call(function_of(a, record->call_site));
	a->makes_sheaves |= first == FIRST_SHEAVES_MADE;
	a->has_no_sheaves = !a->makes_sheaves || first != FIRST_SHEAVES_OTHER;
	return a->has_no_sheaves;
}

static int replay_alloc(struct allocators *a, const struct heap_change *change)
{
	const struct kmem_record *record = change->record;
	const struct sidecar *sidecar = trace_reader_sidecar(a->base.replay->reader);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, record->cache);
	const struct allocation allocation = {
		.ptr = change->ptr,
		.cache = cache ? cache->name : "",
		.object_size = cache ? cache->object_size : 0,
		.taken = record->bytes_alloc,
		.requested = record->bytes_req,
		.call_site = record->call_site,
		.buckets = buckets_of(a, record),
		.node = record->node,
		.cpu = change->vcpu,
		.prefilled = prefilled_for(a, record),
		.has_no_sheaf = has_no_sheaf(a, record),
		.makes_no_sheaf = record->gfp_flags & a->no_sheaf_flag,
		.is_kmalloc = record->type_id == KMEM_TYPE_KMALLOC,
		.is_large = change->object->place == HEAP_IS_BLOCK,
	};

	return pending_alloc(&a->pending, a->simulation, &allocation, record->timestamp);
}

static int replay_free(struct allocators *a, const struct heap_change *change)
{
	const struct kmem_record *record = change->record;
	const struct one_free *last = &a->pending.last_free;
	struct one_free one = {.ptr = change->ptr,
			       .call_site = record->call_site,
			       .ns = record->timestamp,
			       .cpu = change->vcpu,
			       .cache = record->cache,
			       .is_kmalloc = record->type_id == KMEM_TYPE_KMALLOC};

	/* at the latest, where no function has a name */
	a->has_no_sheaves = false;
	one.is_after_rcu = last->call_site == one.call_site
				   ? last->is_after_rcu
				   : array_site_is_of_rcu(function_of(a, one.call_site));
	return pending_free(&a->pending, a->simulation, &one);
}

/* That the guest shrank a cache is known by the slabs that it gave back, one after the other. */
static void replay_block(struct allocators *a, const struct heap_change *change)
{
	const struct sidecar_cache *cache;

	if (!change->slab_of || change->slab_of == a->shrunk ||
	    !strstr(function_of(a, change->record->call_site), "shrink"))
		return;
	a->shrunk = change->slab_of;
	cache = sidecar_cache(trace_reader_sidecar(a->base.replay->reader), change->slab_of);
	if (cache)
		simulation_shrink(a->simulation, cache->name);
}

/* That a timer of SLAB ran is known likewise. */
static void replay_drain(struct allocators *a, const struct heap_change *change)
{
	const struct sidecar_cache *cache =
		sidecar_cache(trace_reader_sidecar(a->base.replay->reader), change->slab_of);
	const char *function = function_of(a, change->record->call_site);

	/* "drain_freelist.isra.0" */
	if (cache && !strncmp(function, "drain_freelist", strlen("drain_freelist")))
		simulation_drained(a->simulation, cache->name, change->vcpu,
				   change->record->timestamp);
}

/* What is not an allocation or a free of an object. */
static int replay_other(struct allocators *a, const struct heap_change *change)
{
	const int ret = pending_flush(&a->pending, a->simulation);

	if (heap_change_origin(change)->type == KMEM_TYPE_PAGES) {
		replay_block(a, change);
		replay_drain(a, change);
	} else if (change->kind == HEAP_MISSED_FREE) {
		simulation_free(a->simulation, change->ptr, change->vcpu);
	}
	return ret;
}

static int replay_change(struct allocators *a, const struct heap_change *change)
{
	const bool is_object = heap_change_origin(change)->type != KMEM_TYPE_PAGES;
	const int64_t ns = change->record->timestamp;

	if (simulation_is_due(a->simulation, change->vcpu, ns)) {
		if (pending_flush(&a->pending, a->simulation))
			return -ENOMEM;
		simulation_run_timer(a->simulation, change->vcpu, ns);
	}
	if (is_object)
		a->shrunk = 0;
	if (is_object && change->kind == HEAP_ALLOC)
		return replay_alloc(a, change);
	if (is_object && change->kind == HEAP_FREE)
		return replay_free(a, change);
	return replay_other(a, change);
}

/* Of other instances: a probe of what no allocation shows. */
static int event(struct analysis *base, const struct event *event)
{
	struct allocators *a = (struct allocators *)base;
	const uint64_t ip = event->instance == base->replay->instance ? 0 : told_function(event);
	struct told_call call;
	int ret;

	if (!ip || !told_call(function_of(a, ip), event, &call))
		return 0;
	ret = pending_flush(&a->pending, a->simulation);
	if (call.kind == TOLD_FREE_LATER)
		simulation_free_later(a->simulation, call.value, event->vcpu);
	else if (call.kind == TOLD_PREFILL)
		simulation_prefill(a->simulation, event->vcpu, call.task, call.value);
	else if (call.kind == TOLD_LOOK)
		simulation_look(a->simulation, call.cache, event->vcpu);
	else
		simulation_end_prefill(a->simulation, event->vcpu, call.task);
	return ret;
}

static uint64_t model_bytes(const struct allocators *a)
{
	return simulation_pages(a->simulation) * MODEL_PAGE_SIZE;
}

/* Before the window has a change: what the model holds once nothing is pending. */
static int hold_model(struct allocators *a)
{
	const int ret = pending_flush(&a->pending, a->simulation);

	held_course_before(&a->replayed, model_bytes(a));
	return ret;
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct allocators *a = (struct allocators *)base;
	const struct replay *replay = base->replay;
	const int64_t ns = change->record->timestamp;

	if (!change->object)
		return 0;
	if ((replay->in_window && !a->replayed.course.steps && hold_model(a)) ||
	    replay_change(a, change))
		return -ENOMEM;
	if (!replay->in_window) {
		held_course_before(&a->guest, guest_bytes(replay));
		return 0;
	}
	if (held_course_put(&a->guest, replay->span.begin_ns, ns, guest_bytes(replay)))
		return -ENOMEM;
	return held_course_put(&a->replayed, replay->span.begin_ns, ns, model_bytes(a));
}

/* --- results --------------------------------------------------------------------------------- */

static int by_pages(const void *left, const void *right, void *arg)
{
	const struct allocators *a = arg;
	const struct model_cache *x = simulation_cache(a->simulation, *(const size_t *)left);
	const struct model_cache *y = simulation_cache(a->simulation, *(const size_t *)right);

	if (x->pages != y->pages)
		return x->pages < y->pages ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* Of a window in which nothing changes, what is held before is the course. */
static int finish_pending(struct allocators *a)
{
	const struct replay *replay = a->base.replay;

	if (!a->replayed.course.steps) {
		held_course_before(&a->guest, guest_bytes(replay));
		return hold_model(a);
	}
	if (pending_flush(&a->pending, a->simulation))
		return -ENOMEM;
	return held_course_put(&a->replayed, replay->span.begin_ns, a->replayed.last_ns,
			       model_bytes(a));
}

static int finish(struct analysis *base)
{
	struct allocators *a = (struct allocators *)base;
	const struct replay *replay = base->replay;
	const size_t n = simulation_nr_caches(a->simulation);

	if (finish_pending(a))
		return -ENOMEM;
	a->unknown = why_unknown(replay);
	heap_holdings_deinit(&a->held);
	free(a->order);
	a->order = calloc(n ? n : 1, sizeof(*a->order));
	if (!a->order ||
	    heap_holdings_find(&a->held, replay->heap, trace_reader_sidecar(replay->reader)))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		a->order[i] = i;
	qsort_r(a->order, n, sizeof(*a->order), by_pages, a);
	a->shown = base->options.top && base->options.top < n ? base->options.top : n;
	return 0;
}

/* Of caches with this name. False: the guest has none, as the model names others, or that is not
 * known. */
static bool guest_held(const struct allocators *a, const struct model_cache *cache,
		       struct heap_held *out)
{
	*out = a->held.large;
	return !a->unknown &&
	       (simulation_is_large(cache) || heap_holdings_of_cache(&a->held, cache->name, out));
}

/* Bytes that live objects take beyond what was requested, and bytes of slabs in no object. */
static uint64_t internal_waste(const struct model_cache *cache)
{
	return cache->taken > cache->requested ? cache->taken - cache->requested : 0;
}

static uint64_t external_waste(const struct model_cache *cache)
{
	const uint64_t bytes = cache->pages * MODEL_PAGE_SIZE;

	return bytes > cache->taken ? bytes - cache->taken : 0;
}

static uint64_t sum(const struct allocators *a, uint64_t (*value)(const struct model_cache *))
{
	uint64_t total = 0;

	for (size_t i = 0; i < simulation_nr_caches(a->simulation); i++)
		total += value(simulation_cache(a->simulation, i));
	return total;
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_course(FILE *out, const char *label, const struct allocators *a,
			 const struct held_course *held)
{
	uint64_t peaks[HELD_COURSE_PARTS];

	held_course_peaks(held, a->base.replay->span.end_ns, peaks);
	fprintf(out, "%-*s%s  peak %s, mean %s\n", LABEL, label,
		sparkline(peaks, HELD_COURSE_PARTS).s, text_bytes(held->peak).s,
		text_bytes(held_course_mean(held)).s);
}

static void print_value(FILE *out, const struct allocators *a, const char *label, uint64_t model,
			uint64_t guest, const char *what)
{
	fprintf(out, "%-*s%s %s", LABEL, label, text_bytes(model).s, what);
	if (!a->unknown)
		fprintf(out, ", the guest %s", text_bytes(guest).s);
	if (!a->unknown && guest)
		fprintf(out, " (%+.1f %%)", 100 * ((double)model - (double)guest) / (double)guest);
	fputc('\n', out);
}

static void print_summary(FILE *out, const struct allocators *a)
{
	fprintf(out, "%-*s%s: %s%s, %s, %s\n", LABEL, "Model", a->model.name, a->model.ops->name,
		a->is_assumed ? " (assumed: the trace names none)" : "",
		text_number(simulation_cpus(a->simulation), "CPU").s,
		text_number((uint64_t)a->model.nodes, "node").s);
	print_value(out, a, "Held", a->replayed.last, a->guest.last, "at the end");
	print_course(out, "Course", a, &a->replayed);
	if (a->unknown)
		line_print(out, LABEL, "  guest", "unknown: %s", a->unknown);
	else
		print_course(out, "  guest", a, &a->guest);
	print_value(out, a, "Internal", sum(a, internal_waste), a->held.all.internal,
		    "in objects, not requested");
	print_value(out, a, "External", sum(a, external_waste), a->held.all.external,
		    "in slabs, in no object");
}

static void add_row(struct table *table, const struct allocators *a,
		    const struct model_cache *cache)
{
	const bool is_large = simulation_is_large(cache);
	struct heap_held guest;
	bool has_guest = guest_held(a, cache, &guest);
	char slot[32];

	table_add_cell(table, cache->name);
	snprintf(slot, sizeof(slot), "%llu", (unsigned long long)cache->slot);
	table_add_cell(table, is_large ? "-" : slot);
	snprintf(slot, sizeof(slot), "%u", cache->order);
	table_add_cell(table, is_large ? "-" : slot);
	table_add_cell(table, text_count(cache->objects).s);
	table_add_cell(table, text_count(cache->pages).s);
	table_add_cell(table, has_guest ? text_count(guest.bytes / MODEL_PAGE_SIZE).s : "-");
	table_add_cell(table, text_bytes(internal_waste(cache)).s);
	table_add_cell(table, text_bytes(external_waste(cache)).s);
	table_add_cell(table, text_count(cache->peak).s);
	table_add_cell(table, has_guest ? text_bytes(guest.external).s : "-");
}

static void print_caches(FILE *out, const struct allocators *a)
{
	static const struct {
		const char *title;
		bool is_name;
	} columns[] = {{"CACHE", true},     {"SIZE", false},     {"ORDER", false},
		       {"OBJECTS", false},  {"PAGES", false},    {"GUEST", false},
		       {"INTERNAL", false}, {"EXTERNAL", false}, {"PEAK", false},
		       {"GUEST EXT", false}};
	const size_t n = simulation_nr_caches(a->simulation);
	struct table *table = n ? table_create() : NULL;

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		table_add_column(table, columns[i].title, columns[i].is_name);
	for (size_t i = 0; i < a->shown; i++)
		add_row(table, a, simulation_cache(a->simulation, a->order[i]));
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
	if (a->shown < n)
		fprintf(out, "%zu more; --top 0 shows all\n", n - a->shown);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct allocators *a = (const struct allocators *)base;
	const struct replay *replay = base->replay;

	replay_print_head(replay, out, LABEL);
	print_summary(out, a);
	replay_print_losses(replay, out, LABEL);
	replay_print_bound(replay, out, LABEL);
	print_caches(out, a);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static int put_count(json_t *root, const char *key, uint64_t value)
{
	return json_object_set_new(root, key, json_from_count(value));
}

/* Null: that is not known. */
static json_t *guest_json(const struct allocators *a, json_t *value)
{
	if (!a->unknown)
		return value;
	json_decref(value);
	return json_null();
}

static json_t *course_json(const struct allocators *a, const struct held_course *held)
{
	uint64_t peaks[HELD_COURSE_PARTS];
	json_t *array = json_array();

	held_course_peaks(held, a->base.replay->span.end_ns, peaks);
	for (size_t i = 0; i < HELD_COURSE_PARTS; i++)
		json_array_append_new(array, json_from_count(peaks[i]));
	return json_pack("{so,so,sI,so,so}", "bytes", json_from_count(held->last), "peak_bytes",
			 json_from_count(held->peak), "peak_ns", (json_int_t)held->peak_ns,
			 "mean_bytes", json_from_count(held_course_mean(held)), "course", array);
}

static json_t *cache_json(const struct allocators *a, const struct model_cache *cache)
{
	struct heap_held guest;
	json_t *item =
		json_pack("{so,so,so,so,so,so,so,so}", "cache", json_from_text(cache->name), "size",
			  json_from_count(cache->slot), "order", json_from_count(cache->order),
			  "objects", json_from_count(cache->objects), "pages",
			  json_from_count(cache->pages), "peak_pages", json_from_count(cache->peak),
			  "internal_bytes", json_from_count(internal_waste(cache)),
			  "external_bytes", json_from_count(external_waste(cache)));

	if (!guest_held(a, cache, &guest))
		return item;
	put_count(item, "guest_pages", guest.bytes / MODEL_PAGE_SIZE);
	put_count(item, "guest_internal_bytes", guest.internal);
	put_count(item, "guest_external_bytes", guest.external);
	return item;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct allocators *a = (const struct allocators *)base;
	json_t *caches = json_array();
	int failed = replay_put_json(base->replay, root);

	for (size_t i = 0; i < a->shown; i++)
		failed |= json_array_append_new(
			caches, cache_json(a, simulation_cache(a->simulation, a->order[i])));
	failed |= put_count(root, "records", base->replay->records);
	failed |= json_object_set_new(root, "model", json_from_text(a->model.name));
	failed |= json_object_set_new(root, "allocator", json_from_text(a->model.ops->name));
	failed |= json_object_set_new(root, "assumed", json_boolean(a->is_assumed));
	failed |= put_count(root, "cpus", simulation_cpus(a->simulation));
	failed |= json_object_set_new(root, "replayed", course_json(a, &a->replayed));
	failed |= json_object_set_new(root, "guest", guest_json(a, course_json(a, &a->guest)));
	failed |= put_count(root, "internal_bytes", sum(a, internal_waste));
	failed |= put_count(root, "external_bytes", sum(a, external_waste));
	failed |= json_object_set_new(root, "guest_internal_bytes",
				      guest_json(a, json_from_count(a->held.all.internal)));
	failed |= json_object_set_new(root, "guest_external_bytes",
				      guest_json(a, json_from_count(a->held.all.external)));
	return failed | json_object_set_new(root, "caches", caches);
}

const struct analysis_ops allocators_analysis = {
	.about = "what another slab allocator would have held",
	.size = sizeof(struct allocators),
	.init = init,
	.event = event,
	.change = change,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
