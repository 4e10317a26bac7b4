/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracer-kmem.h"

#include <errno.h>
#include <stdlib.h>
#include "patcher/kmem-record.h"

/* In the order of enum kmem_type_id, so that a filter bit is a type bit. */
static const char *const filter_names[] = {"kmalloc", "cache", "pages", NULL};

static struct kmem_tracer *kmem_of(struct tracer *tracer)
{
	return (struct kmem_tracer *)tracer;
}

static bool is_wanted(const struct kmem_tracer *t, const struct alloc_entry *entry)
{
	bool slab_bulk_free =
		entry->type == KMEM_TYPE_CACHE && entry->action == ALLOC_ACTION_FREE_BULK;

	/* kfree_bulk() is kmem_cache_free_bulk() without a cache */
	if (slab_bulk_free && (t->types & 1u << KMEM_TYPE_KMALLOC))
		return true;
	return t->types & 1u << entry->type;
}

static int make_probes(struct kmem_tracer *t, struct error *err)
{
	const struct alloc_points *points = &t->context.kernel->image->alloc;

	t->probes = calloc(points->n ? points->n : 1, sizeof(*t->probes));
	if (!t->probes)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < points->n; i++) {
		const struct alloc_point *p = &points->v[i];

		if (!is_wanted(t, p->entry))
			continue;
		if (!p->site)
			return error_set_at(err, ENOTSUP, p->address, "%s has no mcount site",
					    p->entry->name);
		t->probes[t->nr_probes++] = (struct probe){
			.name = p->entry->name,
			.function = p->address,
			.size = p->size,
			.site = p->site,
			.wants_return = p->entry->action == ALLOC_ACTION_ALLOC ||
					p->entry->action == ALLOC_ACTION_ALLOC_BULK,
			.data = p->entry,
		};
	}
	return 0;
}

static void kmem_destroy(struct tracer *tracer)
{
	struct kmem_tracer *t = kmem_of(tracer);

	free(t->probes);
	page_callers_destroy(t->page_callers);
	cache_ids_destroy(t->caches);
	slab_view_destroy(t->slab);
	free(t);
}

static int kmem_create(const struct tracer_context *context, uint32_t filters, struct tracer **out,
		       struct error *err)
{
	struct kmem_tracer *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_kmem;
	t->context = *context;
	t->types = filters ? filters : (1u << KMEM_TYPE_COUNT) - 1;
	ret = slab_view_create(context->kernel, &t->slab, err);
	if (!ret)
		ret = cache_ids_create(t->slab, context->writer, &t->caches, err);
	if (!ret)
		ret = page_callers_create(context->kernel, &t->page_callers, err);
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

static void kmem_entry(struct tracer *tracer, const struct probe *probe,
		       const struct probe_hit *hit, struct stash_entry *call)
{
	if (call)
		kmem_alloc_entry(kmem_of(tracer), probe->data, call);
	else
		kmem_free_entry(kmem_of(tracer), probe->data, hit);
}

static bool kmem_return(struct tracer *tracer, const struct probe *probe,
			const struct probe_hit *hit, const struct stash_entry *call)
{
	return kmem_alloc_return(kmem_of(tracer), probe->data, hit, call);
}

const struct tracer_ops tracer_kmem = {
	.name = "kmem",
	.help = "allocations and frees of slab memory and pages",
	.filters = filter_names,
	.create = kmem_create,
	.destroy = kmem_destroy,
	.probes = kmem_probes,
	.entry = kmem_entry,
	.ret = kmem_return,
};
