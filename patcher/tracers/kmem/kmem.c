/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include "introspect/tasks/stack-scan.h"
#include "patcher/probe/chain.h"

/* In the order of enum kmem_type_id, then of enum event_task_fields: a word's bit is a type's, or
 * that of a field behind them. */
static const char *const words[] = {"kmalloc", "cache", "pages", TRACER_TASK_WORDS, NULL};
static const struct trace_alias aliases[] = {
	{"kfree", "kmalloc", "frees are calls of a function: function:kfree,hist:keys=parent_ip"},
	{"kmem_cache_alloc", "cache", NULL},
	{"kmem_cache_free", "cache",
	 "frees are calls of a function: function:kmem_cache_free,hist:keys=parent_ip"},
	{"slab", "cache", NULL},
	{"mm_page_alloc", "pages", NULL},
	{"mm_page_free", "pages", "several functions free pages: record kmem:pages"},
	{NULL, NULL, NULL},
};
enum { NR_WORDS = sizeof(words) / sizeof(words[0]) - 1 };
_Static_assert((EVENT_TASK_ALL | EVENT_TASK_STACK) == (1 << (NR_WORDS - KMEM_TYPE_COUNT)) - 1,
	       "each record type and each field has a word");

static struct kmem_tracer *kmem_of(struct tracer *tracer)
{
	return (struct kmem_tracer *)tracer;
}

static uint32_t fields_at_entry(const struct alloc_entry *entry)
{
	uint32_t fields = CAPTURE(FIELD_KEY) | CAPTURE(FIELD_CALL_SITE);

	for (unsigned int i = 0; i < ALLOC_MAX_ARGS; i++)
		if (entry->args[i] != ALLOC_ROLE_NONE)
			fields |= CAPTURE(FIELD_ARG0 + i);
	if (entry->type == KMEM_TYPE_PAGES)
		fields |= CAPTURE(FIELD_STACK);
	return fields;
}

static uint32_t fields_of_task(const struct kmem_tracer *t)
{
	static const enum record_field of[] = {FIELD_PID, FIELD_TGID, FIELD_COMM, FIELD_CGROUP};
	uint32_t fields = 0;

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (t->task.fields >> i & 1)
			fields |= CAPTURE(of[i]);
	return fields;
}

/* What is captured of the task takes its room from the stack, where items leave too little. */
static void add_task(const struct kmem_tracer *t, struct capture *capture)
{
	struct record_layout layout;

	if (!t->task.fields)
		return;
	capture->task = &t->task;
	capture->fields |= fields_of_task(t);
	while (record_layout(capture, &layout, NULL) && capture->stack_words > 1)
		capture->stack_words--;
}

/* Of the point at which the record is complete. */
static void add_chain(const struct kmem_tracer *t, struct capture *capture)
{
	if (!(t->task.fields & EVENT_TASK_STACK))
		return;
	capture->task = &t->task;
	capture->fields |= CAPTURE(FIELD_CHAIN);
	capture_fit_chain(capture);
}

static bool find_role(const struct alloc_entry *entry, enum alloc_role role, uint8_t *argument)
{
	*argument = entry->argument[role] ? (uint8_t)(entry->argument[role] - 1) : 0;
	return entry->argument[role];
}

static int set_batch(const struct slab_view *slab, struct capture_items *items)
{
	struct slab_batch batch;
	int ret = slab_folio_batch(slab, &batch, NULL);

	if (ret)
		return ret;
	items->from = ITEMS_COUNTED;
	items->count_size = 1;
	items->count_offset = (int32_t)batch.nr;
	items->words_offset = (int32_t)batch.folios;
	return 0;
}

static int set_sheaf(const struct slab_view *slab, struct capture_items *items)
{
	struct slab_sheaf sheaf;
	int ret = slab_sheaf(slab, &sheaf, NULL);

	if (ret)
		return ret;
	items->from = ITEMS_COUNTED;
	items->count_size = 4;
	items->count_offset = sheaf.count;
	items->words_offset = sheaf.objects;
	items->owner_offset = sheaf.cache;
	return 0;
}

/* The page, if this drops its last reference. */
static int set_last(const struct slab_view *slab, struct capture_items *items)
{
	uint32_t refcount;
	int ret = slab_page_refcount(slab, &refcount, NULL);

	if (ret)
		return ret;
	items->from = ITEMS_LAST;
	items->count_offset = (int32_t)refcount;
	return 0;
}

/* What is freed. */
static struct capture_items freed_items(const struct kmem_tracer *t,
					const struct alloc_entry *entry)
{
	struct slab_view *slab = t->slab;
	struct capture_items items = {.page_orders = entry->type == KMEM_TYPE_PAGES};

	if (find_role(entry, ALLOC_ROLE_ARRAY, &items.pointer) &&
	    find_role(entry, ALLOC_ROLE_COUNT, &items.count)) {
		items.from = ITEMS_ARRAY; /* its count is a size_t */
	} else if (find_role(entry, ALLOC_ROLE_LIST, &items.pointer)) {
		items.from = ITEMS_LISTED;
		items.link = (int32_t)slab_page_link(slab);
	} else if (find_role(entry, ALLOC_ROLE_BATCH, &items.pointer)) {
		set_batch(slab, &items);
	} else if (find_role(entry, ALLOC_ROLE_SHEAF, &items.pointer)) {
		set_sheaf(slab, &items);
	} else if (find_role(entry, ALLOC_ROLE_PAGE, &items.pointer)) {
		set_last(slab, &items);
	}
	return items;
}

/* Bulk page allocation fills the holes of an array: what it held before is not its work. */
static struct capture_items saved_items(const struct alloc_entry *entry)
{
	struct capture_items items = {.from = ITEMS_SAVED,
				      .skip_filled = entry->type == KMEM_TYPE_PAGES,
				      .all_or_none = entry->all_or_none};

	if (!find_role(entry, ALLOC_ROLE_ARRAY, &items.pointer) ||
	    !find_role(entry, ALLOC_ROLE_COUNT, &items.count))
		items.from = ITEMS_NONE;
	return items;
}

/* NULL if nothing can be found through it. */
static const struct page_lookup *page_lookup(const struct kmem_tracer *t)
{
	return slab_missing(t->slab, SLAB_PAGES) ? NULL : &t->pages;
}

/* Frame pointers make frames larger. */
static uint8_t stack_of_free(const struct kmem_tracer *t)
{
	return t->context.kernel->known.orc.n ? PAGE_CALLER_STACK_FREE
					      : PAGE_CALLER_STACK_FREE_WITHOUT_ORC;
}

static struct capture entry_capture(const struct kmem_tracer *t, const struct alloc_point *p)
{
	const struct alloc_entry *entry = &p->entry;
	struct capture capture = {.point = POINT_ENTRY,
				  .pages = page_lookup(t),
				  .parameters = (uint8_t)p->nr_params,
				  .fields = fields_at_entry(entry),
				  .stack_words = PAGE_CALLER_STACK};
	uint8_t argument;

	if (entry->action == ALLOC_ACTION_FREE_BULK) {
		capture.items = freed_items(t, entry);
		capture.stack_words = PAGE_CALLER_STACK_WITH_ITEMS;
	} else if (entry->action == ALLOC_ACTION_FREE_LAST) {
		capture.items = freed_items(t, entry);
		capture.stack_words = stack_of_free(t);
	} else if (entry->action == ALLOC_ACTION_FREE) {
		capture.stack_words = stack_of_free(t);
	} else if (entry->action == ALLOC_ACTION_ALLOC_BULK) {
		capture.items = saved_items(entry);
		capture.stack_words = PAGE_CALLER_STACK_WITH_ITEMS;
	}
	if (capture.items.from == ITEMS_COUNTED && find_role(entry, ALLOC_ROLE_SHEAF, &argument))
		capture.fields |= CAPTURE(FIELD_OWNER);
	add_task(t, &capture);
	if (alloc_action_frees(entry->action))
		add_chain(t, &capture);
	return capture;
}

static struct capture return_capture(const struct kmem_tracer *t, const struct alloc_entry *entry)
{
	struct capture capture = {.point = POINT_RETURN,
				  .pages = page_lookup(t),
				  .fields = CAPTURE(FIELD_KEY) | CAPTURE(FIELD_RESULT)};
	uint8_t argument;

	if (entry->action == ALLOC_ACTION_ALLOC_BULK) {
		capture.items.from = ITEMS_RETURNED;
		capture.fields |= CAPTURE(FIELD_SAVED);
	} else if (entry->type == KMEM_TYPE_KMALLOC && !slab_missing(t->slab, SLAB_OBJECTS) &&
		   !find_role(entry, ALLOC_ROLE_CACHE, &argument)) {
		capture.fields |= CAPTURE(FIELD_SLAB_CACHE);
	}
	add_chain(t, &capture);
	return capture;
}

static bool is_simple(const struct alloc_entry *entry)
{
	return entry->type != KMEM_TYPE_PAGES &&
	       (entry->action == ALLOC_ACTION_ALLOC || entry->action == ALLOC_ACTION_FREE);
}

static struct probe make_probe(const struct kmem_tracer *t, const struct alloc_point *p)
{
	const struct alloc_entry *entry = &p->entry;

	return (struct probe){
		.name = entry->name,
		.simple = is_simple(entry),
		.function = p->address,
		.size = p->size,
		.site = p->site,
		.wants_return = entry->action == ALLOC_ACTION_ALLOC ||
				entry->action == ALLOC_ACTION_ALLOC_BULK,
		.entry = entry_capture(t, p),
		.ret = return_capture(t, entry),
		.data = entry,
	};
}

static void add_probe(struct kmem_tracer *t, const struct alloc_point *p)
{
	struct kmem_plan *plan = &t->plans[t->nr_probes];
	struct probe *probe = &t->probes[t->nr_probes++];

	*probe = make_probe(t, p);
	probe->in_runs = kmem_plan_make(t, probe, plan);
	probe->plan = plan;
}

/* What of the slab view an entry point cannot be traced without. */
static uint32_t needed_features(const struct alloc_entry *entry)
{
	uint32_t needs = 0;

	if (entry->type == KMEM_TYPE_PAGES)
		needs |= 1u << SLAB_PAGES;
	if (entry->type == KMEM_TYPE_CACHE && !alloc_action_frees(entry->action))
		needs |= 1u << SLAB_CACHES;
	if (entry->argument[ALLOC_ROLE_BATCH])
		needs |= 1u << SLAB_BATCHES | 1u << SLAB_ORDERS;
	if (entry->argument[ALLOC_ROLE_SHEAF])
		needs |= 1u << SLAB_SHEAVES;
	if (entry->argument[ALLOC_ROLE_LIST] && alloc_action_frees(entry->action))
		needs |= 1u << SLAB_LISTS | 1u << SLAB_ORDERS;
	if (entry->action == ALLOC_ACTION_FREE_LAST)
		needs |= 1u << SLAB_REFERENCES | 1u << SLAB_ORDERS;
	return needs;
}

/* Why an entry point cannot be traced; NULL if it can. */
static const char *find_obstacle(const struct kmem_tracer *t, const struct alloc_entry *entry)
{
	uint32_t needs = needed_features(entry);

	for (int i = 0; i < SLAB_NR_FEATURES; i++)
		if ((needs & 1u << i) && slab_missing(t->slab, i))
			return slab_missing(t->slab, i);
	return NULL;
}

static void add_gap(struct kmem_tracer *t, enum kmem_type_id type, struct probe_gap gap)
{
	t->gaps[t->nr_gaps++] = (struct kmem_gap){1u << type, gap};
}

/* Whether it is known already why a function is no entry point. */
static bool is_unresolved(const struct alloc_points *points, uint64_t function)
{
	for (size_t i = 0; i < points->nr_unresolved; i++)
		if (points->unresolved[i].address == function)
			return true;
	return false;
}

static int make_gaps(struct kmem_tracer *t, struct error *err)
{
	const struct alloc_points *points = t->points;

	const char *no_caches = slab_missing(t->slab, SLAB_CACHES);

	t->gaps = calloc(points->n + points->nr_unresolved + points->nr_emitters + 2,
			 sizeof(*t->gaps));
	if (!t->gaps)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->nr_unresolved; i++) {
		const struct alloc_unresolved *u = &points->unresolved[i];

		add_gap(t, u->type, (struct probe_gap){u->name, u->address, u->reason});
	}
	for (size_t i = 0; i < points->nr_emitters; i++) {
		const struct alloc_emitter *e = &points->emitters[i];

		if (e->cover == ALLOC_COVER_NONE && !is_unresolved(points, e->address))
			add_gap(t, e->type, (struct probe_gap){e->function, e->address, e->reason});
	}
	if (!no_caches)
		no_caches = slab_missing(t->slab, SLAB_OBJECTS);
	if (no_caches)
		add_gap(t, KMEM_TYPE_KMALLOC,
			(struct probe_gap){"caches and allocated sizes of kmalloc()", 0,
					   no_caches});
	if (points->unproven[0])
		t->gaps[t->nr_gaps++] =
			(struct kmem_gap){UINT32_MAX, {"other functions", 0, points->unproven}};
	return 0;
}

static int make_probes(struct kmem_tracer *t, struct error *err)
{
	const struct alloc_points *points;
	int ret = alloc_points_of(t->context.kernel->image, &t->points, err);

	if (!ret)
		ret = make_gaps(t, err);
	if (ret)
		return ret;
	points = t->points;
	t->probes = calloc(points->n + 1, sizeof(*t->probes));
	t->plans = calloc(points->n + 1, sizeof(*t->plans));
	if (!t->probes || !t->plans)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		const char *obstacle = find_obstacle(t, &p->entry);

		if (!obstacle)
			add_probe(t, p);
		else
			add_gap(t, p->entry.type,
				(struct probe_gap){p->entry.name, p->address, obstacle});
	}
	return 0;
}

/* --- struct page_lookup --------------------------------------------------------------------- */

static int page_facts(void *slab, struct slab_page_facts *out, struct error *err)
{
	return slab_page_facts(slab, out, err);
}

static int slab_cache_of(void *slab, uint64_t object, uint64_t *cache, struct error *err)
{
	uint64_t bytes;

	return slab_of_object(slab, object, cache, &bytes, err);
}

static int page_order(void *slab, uint64_t page, unsigned int *order, struct error *err)
{
	return slab_page_order(slab, page, order, err);
}

/* --- struct tracer_ops ---------------------------------------------------------------------- */

static void kmem_destroy(struct tracer *tracer)
{
	struct kmem_tracer *t = kmem_of(tracer);

	kmem_config_destroy((struct tracer_config *)t->config);
	free(t->gaps);
	free(t->probes);
	free(t->plans);
	free(t->stack);
	free(t->map);
	free(t->pending);
	page_callers_destroy(t->page_callers);
	filled_pages_destroy(t->filled);
	cache_ids_destroy(t->caches);
	slab_view_destroy(t->slab);
	free(t);
}

static int find_places(struct kmem_tracer *t, uint32_t fields)
{
	int ret = task_places_find(t->context.kernel, fields, &t->task, &t->no_task);

	if (ret)
		error_prefix(&t->no_task, "tasks cannot be recorded: ");
	else if (fields & EVENT_TASK_STACK)
		ret = chain_check(t->context.kernel, &t->no_task);
	return ret;
}

/* Without the places the tracer does without: an instance that asks is refused. */
static void find_task(struct kmem_tracer *t, const struct trace_spec *const *specs, size_t nr_specs)
{
	uint32_t fields = 0;

	for (size_t i = 0; i < nr_specs; i++)
		fields |= kmem_captured_fields(specs[i]);
	if (fields && find_places(t, fields))
		t->task.fields = 0;
}

static int kmem_create(const struct tracer_context *context, const struct trace_spec *const *specs,
		       size_t nr_specs, struct tracer **out, struct error *err)
{
	struct budget *const budget = context->kernel->guest->budget;
	struct kmem_tracer *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_kmem;
	t->context = *context;
	find_task(t, specs, nr_specs);
	call_table_set_stack(context->calls, task_stack_bytes(context->kernel->image));
	t->stack = calloc(EVENT_STACK_WORDS, sizeof(*t->stack));
	t->map = calloc(1, sizeof(*t->map));
	ret = t->stack && t->map ? slab_view_create(context->kernel, &t->slab, err)
		       : error_set(err, ENOMEM, "out of memory");
	t->pages = (struct page_lookup){t->slab, page_facts, slab_cache_of, page_order};
	if (!ret)
		ret = cache_ids_create(t->slab, context->writer, budget, &t->caches, err);
	if (!ret)
		ret = page_callers_create(context->kernel, &t->page_callers, err);
	if (!ret)
		ret = filled_pages_create(budget, &t->filled, err);
	if (!ret)
		ret = kmem_pending_create(context->kernel->guest->nr_vcpus, &t->pending, err);
	if (!ret)
		ret = make_probes(t, err);
	if (ret)
		kmem_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

static const struct probe *kmem_probes(struct tracer *tracer, size_t *n)
{
	*n = kmem_of(tracer)->nr_probes;
	return kmem_of(tracer)->probes;
}

static void kmem_describe(const struct tracer *tracer, struct trace_info *info)
{
	const struct kernel_image *image =
		((const struct kmem_tracer *)tracer)->context.kernel->image;

	gfp_names_read(image, info);
	snprintf(info->slab_allocator, sizeof(info->slab_allocator), "%s",
		 slab_allocator_of(image));
}

static void kmem_entry(struct tracer *tracer, const struct probe *probe,
		       const struct probe_hit *hit, struct open_call *call)
{
	if (call)
		kmem_alloc_entry(kmem_of(tracer), probe, hit, call);
	else
		kmem_free_entry(kmem_of(tracer), probe, hit);
}

static bool kmem_return(struct tracer *tracer, const struct probe *probe,
			const struct probe_hit *hit, const struct open_call *call)
{
	return kmem_alloc_return(kmem_of(tracer), probe->data, hit, call);
}

static void kmem_emitted(struct tracer *tracer)
{
	kmem_pending_put_all(kmem_of(tracer));
	cache_ids_forget_freed(kmem_of(tracer)->caches);
}

const struct tracer_ops tracer_kmem = {
	.name = "kmem",
	.help = "allocations and frees of slab memory and pages",
	.spec_classes = kmem_spec_classes,
	.words = words,
	.aliases = aliases,
	.takes = TRACE_TAKES_PIDS | TRACE_TAKES_VCPUS | TRACE_TAKES_FILTER | TRACE_TAKES_HIST,
	.check = kmem_filter_check,
	.check_image = kmem_filter_check_image,
	.in_image = true,
	.create = kmem_create,
	.destroy = kmem_destroy,
	.probes = kmem_probes,
	.describe = kmem_describe,
	.conditions = kmem_conditions,
	.note = kmem_filter_note,
	.wants = kmem_wants,
	.configure = kmem_configure,
	.use = kmem_use,
	.config_destroy = kmem_config_destroy,
	.gaps = kmem_gaps,
	.entry = kmem_entry,
	.ret = kmem_return,
	.take_entry = kmem_free_take,
	.take_call = kmem_alloc_take,
	.take_return = kmem_alloc_take_return,
	.emitted = kmem_emitted,
	.take_run = kmem_take_run,
};
