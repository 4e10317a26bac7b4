/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What completes a record: the call site, sizes, the cache; and where it goes. */
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <string.h>

enum { MAX_ORDER = 20 };

uint64_t kmem_call_site(const struct kmem_tracer *t, const struct alloc_entry *entry,
			const struct probe_hit *hit)
{
	if (entry->type == KMEM_TYPE_PAGES)
		return page_callers_resolve(t->page_callers, hit->call_site, hit->stack,
					    hit->nr_stack);
	return kmem_argument(entry, hit->args, ALLOC_ROLE_CALLER, hit->call_site);
}

bool kmem_is_in_body(const struct kernel *kernel, uint64_t return_address, const char *function)
{
	const struct symbol *s =
		symbols_covering(kernel->image->symbols, kernel_link(kernel, return_address) - 1);
	size_t length = strlen(function);

	return s && !strncmp(s->name, function, length) &&
	       (s->name[length] == '\0' || s->name[length] == '.');
}

unsigned int kmem_order(uint64_t order)
{
	return (uint32_t)order > MAX_ORDER ? 0 : (unsigned int)order;
}

void kmem_emit_with_task(const struct kmem_tracer *t, const struct kmem_moment *at,
			 struct kmem_record *record)
{
	const struct kmem_task_record whole = {*record, *at->task};

	for (size_t i = 0; i < t->nr_outputs; i++) {
		const struct kmem_output *output = &t->outputs[i];

		if (kmem_is_wanted(output, at->vcpu, &whole.record))
			output->stream.output->put(t->context.batch, output->stream.sinks[at->vcpu],
						   kmem_made_class(record), at->ns, &whole);
	}
}

void kmem_emit_pages(const struct kmem_tracer *t, const struct kmem_moment *at, uint64_t page,
		     unsigned int order, struct kmem_record *record)
{
	if (slab_page_address(t->slab, page, &record->ptr, NULL)) {
		count_event(t->context.counters, COUNTER_UNREADABLE, 1);
		return;
	}
	record->bytes_req = (uint64_t)KMEM_PAGE_SIZE << order;
	record->bytes_alloc = record->bytes_req;
	kmem_emit(t, at, record);
}

static int fill_from_cache(const struct kmem_tracer *t, const struct kmem_moment *at,
			   uint64_t cache, struct kmem_record *record)
{
	const struct cache_info *info = cache_ids_get(t->caches, cache, at->batch);

	if (!info)
		return -EFAULT;
	record->cache = info->id;
	record->bytes_alloc = info->size;
	if (record->type_id == KMEM_TYPE_CACHE)
		record->bytes_req = info->object_size;
	return 0;
}

/* kmalloc() of more than any cache holds: the least order of pages (include/linux/slab.h). */
static int fill_from_pages(const struct kmem_tracer *t, struct kmem_record *record)
{
	uint64_t bytes = KMEM_PAGE_SIZE;

	if (!slab_in_direct_map(t->slab, record->ptr))
		return -ERANGE;
	if (record->bytes_req <= KMEM_MAX_CACHE_SIZE || record->bytes_req > (uint64_t)KMEM_PAGE_SIZE
										    << MAX_ORDER)
		return -EINVAL;
	while (bytes < record->bytes_req)
		bytes *= 2;
	record->bytes_alloc = bytes;
	return 0;
}

/* BTF does not show where a cache is, or what it is: the request is known nevertheless. */
static bool lacks_cache(const struct kmem_tracer *t, uint64_t cache,
			const struct kmem_record *record)
{
	return record->type_id == KMEM_TYPE_KMALLOC &&
	       (cache || record->bytes_req <= KMEM_MAX_CACHE_SIZE) &&
	       slab_missing(t->slab, cache ? SLAB_CACHES : SLAB_OBJECTS) &&
	       slab_in_direct_map(t->slab, record->ptr);
}

void kmem_emit_alloc(const struct kmem_tracer *t, const struct kmem_moment *at, uint64_t cache,
		     struct kmem_record *record)
{
	int ret = 0;

	if (lacks_cache(t, cache, record))
		record->bytes_alloc = record->bytes_req;
	else
		ret = cache ? fill_from_cache(t, at, cache, record) : fill_from_pages(t, record);

	/* kvmalloc() may have given vmalloc memory, which is outside the direct map: its pages have
	 * records of their own. A record without sizes would be wrong. */
	if (!ret)
		kmem_emit(t, at, record);
	else if (ret == -ERANGE && !cache)
		count_event(t->context.counters, COUNTER_VMALLOC_ALLOCS, 1);
	else
		count_event(t->context.counters, COUNTER_UNREADABLE, 1);
}
