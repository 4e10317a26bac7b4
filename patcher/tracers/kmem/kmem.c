/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

static int find_points(struct kmem_tracer *t, struct error *err)
{
	const struct alloc_points *points;
	int ret = alloc_points_of(t->context.kernel->image, &t->points, err);

	if (!ret)
		ret = make_gaps(t, err);
	if (ret)
		return ret;
	points = t->points;
	t->traced = calloc(points->n + 1, sizeof(*t->traced));
	if (!t->traced)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		const char *obstacle = find_obstacle(t, &p->entry);

		if (!obstacle)
			t->traced[t->nr_probes++] = p;
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
	kmem_views_destroy(t);
	free(t->probes);
	free(t->traced);
	free(t->stack);
	free(t->map);
	free(t->pending);
	page_callers_destroy(t->page_callers);
	filled_pages_destroy(t->filled);
	cache_ids_destroy(t->caches);
	slab_view_destroy(t->slab);
	free(t);
}

/* For the specs that it begins with. If their tasks cannot be recorded it does without: `configure`
 * says why. */
static int make_probes(struct kmem_tracer *t, const struct trace_spec *const *specs,
		       size_t nr_specs, struct error *err)
{
	const struct kmem_view *view;
	uint32_t fields = 0;
	int ret;

	for (size_t i = 0; i < nr_specs; i++) {
		fields |= kmem_captured_fields(specs[i]);
		t->needed |= specs[i]->nr_pids ? EVENT_TASK_PID : 0;
	}
	ret = kmem_view_find(t, fields, &view, NULL);
	if (ret && fields) {
		t->needed = 0;
		ret = kmem_view_find(t, 0, &view, err);
	}
	t->probes = calloc(t->nr_probes + 1, sizeof(*t->probes));
	if (!ret && !t->probes)
		ret = error_set(err, ENOMEM, "out of memory");
	if (ret)
		return ret;
	memcpy(t->probes, view->probes, t->nr_probes * sizeof(*t->probes));
	t->adopted = t->view = view;
	return 0;
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
		ret = find_points(t, err);
	if (!ret)
		ret = make_probes(t, specs, nr_specs, err);
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
	.view = kmem_config_view,
	.adopt = kmem_adopt,
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
