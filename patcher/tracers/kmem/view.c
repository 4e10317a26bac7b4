/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the probes capture, which depends on what the instances of a time want to know of tasks. */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include "patcher/probe/chain.h"

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

uint32_t kmem_capture_of(uint32_t fields)
{
	static const enum record_field of[EVENT_TASK_FIELDS] = {FIELD_PID, FIELD_TGID, FIELD_COMM,
								FIELD_CGROUP, FIELD_CHAIN};
	uint32_t captured = 0;

	for (size_t i = 0; i < EVENT_TASK_FIELDS; i++)
		if (fields >> i & 1)
			captured |= CAPTURE(of[i]);
	return captured;
}

/* What is captured of the task takes its room from the stack, where items leave too little. */
static void add_task(const struct kmem_view *view, struct capture *capture)
{
	struct record_layout layout;

	if (!view->captured)
		return;
	capture->task = &view->task;
	capture->fields |= view->captured & CAPTURE_TASK;
	while (record_layout(capture, &layout, NULL) && capture->stack_words > 1)
		capture->stack_words--;
}

/* Of the point at which the record is complete. */
static void add_chain(const struct kmem_view *view, struct capture *capture)
{
	if (!(view->captured & CAPTURE(FIELD_CHAIN)))
		return;
	capture->task = &view->task;
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

static struct capture entry_capture(const struct kmem_tracer *t, const struct kmem_view *view,
				    const struct alloc_point *p)
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
	add_task(view, &capture);
	if (alloc_action_frees(entry->action))
		add_chain(view, &capture);
	return capture;
}

static struct capture return_capture(const struct kmem_tracer *t, const struct kmem_view *view,
				     const struct alloc_entry *entry)
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
	add_chain(view, &capture);
	return capture;
}

static bool is_simple(const struct alloc_entry *entry)
{
	return entry->type != KMEM_TYPE_PAGES &&
	       (entry->action == ALLOC_ACTION_ALLOC || entry->action == ALLOC_ACTION_FREE);
}

static struct probe make_probe(const struct kmem_tracer *t, const struct kmem_view *view,
			       const struct alloc_point *p)
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
		.entry = entry_capture(t, view, p),
		.ret = return_capture(t, view, entry),
		.data = entry,
	};
}

static void add_probe(const struct kmem_tracer *t, struct kmem_view *view, size_t number)
{
	struct kmem_plan *plan = &view->plans[number];
	struct probe *probe = &view->probes[number];

	*probe = make_probe(t, view, t->traced[number]);
	probe->in_runs = kmem_plan_make(t, view, probe, plan);
	probe->plan = plan;
	probe->family = view;
}

static void destroy_view(struct kmem_view *view)
{
	if (!view)
		return;
	free(view->plans);
	free(view->probes);
	free(view);
}

void kmem_views_destroy(struct kmem_tracer *t)
{
	for (size_t i = 0; i < PROBE_VIEWS; i++)
		destroy_view(t->views[i]);
}

static int find_task(const struct kmem_tracer *t, uint32_t fields, struct task_places *out,
		     struct error *err)
{
	int ret = fields ? task_places_find(t->context.kernel, fields, out, err) : 0;

	if (!ret && fields & EVENT_TASK_STACK)
		ret = chain_check(t->context.kernel, err);
	if (ret)
		error_prefix(err, "tasks cannot be recorded: ");
	return ret;
}

static int make_view(const struct kmem_tracer *t, uint32_t fields, struct kmem_view **out,
		     struct error *err)
{
	struct kmem_view *view = calloc(1, sizeof(*view));
	int ret = view ? find_task(t, fields, &view->task, err)
		       : error_set(err, ENOMEM, "out of memory");

	if (!ret) {
		view->captured = kmem_capture_of(fields);
		view->probes = calloc(t->nr_probes + 1, sizeof(*view->probes));
		view->plans = calloc(t->nr_probes + 1, sizeof(*view->plans));
		if (!view->probes || !view->plans)
			ret = error_set(err, ENOMEM, "out of memory");
	}
	if (ret) {
		destroy_view(view);
		return ret;
	}
	for (size_t i = 0; i < t->nr_probes; i++)
		add_probe(t, view, i);
	*out = view;
	return 0;
}

int kmem_view_find(struct kmem_tracer *t, uint32_t fields, const struct kmem_view **out,
		   struct error *err)
{
	struct kmem_view **view = &t->views[fields | t->needed];
	int ret = *view ? 0 : make_view(t, fields | t->needed, view, err);

	*out = *view;
	return ret;
}

const struct probe *kmem_config_view(const struct tracer_config *tracer_config,
				     unsigned int *number)
{
	const struct kmem_config *config = (const struct kmem_config *)tracer_config;

	*number = config->view->task.fields;
	return config->view->probes;
}

void kmem_adopt(struct tracer *tracer, const struct tracer_config *config)
{
	struct kmem_tracer *t = (struct kmem_tracer *)tracer;
	const struct probe *probes;

	t->adopted = ((const struct kmem_config *)config)->view;
	probes = t->adopted->probes;
	for (size_t i = 0; i < t->nr_probes; i++) {
		t->probes[i].entry = probes[i].entry;
		t->probes[i].ret = probes[i].ret;
		t->probes[i].in_runs = probes[i].in_runs;
		t->probes[i].plan = probes[i].plan;
		t->probes[i].family = probes[i].family;
	}
}
