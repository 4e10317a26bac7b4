/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <string.h>

enum { MAX_ORDER = 20 };

uint64_t kmem_argument(const struct alloc_entry *entry, const uint64_t words[CAPTURE_ARGUMENTS],
		       enum alloc_role role, uint64_t otherwise)
{
	uint8_t argument = entry->argument[role];

	return argument ? words[argument - 1] : otherwise;
}

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

void kmem_emit(const struct kmem_tracer *t, const struct probe_hit *hit, struct kmem_record *record)
{
	if (!(t->types & 1u << record->type_id))
		return;
	record->timestamp = (int64_t)hit->time_ns;
	trace_writer_append(t->context.writer, hit->vcpu, record);
}

void kmem_emit_pages(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t page,
		     unsigned int order, struct kmem_record *record)
{
	if (slab_page_address(t->slab, page, &record->ptr, NULL)) {
		count_event(t->context.counters, COUNTER_LOST, 1);
		return;
	}
	record->bytes_req = (uint64_t)KMEM_PAGE_SIZE << order;
	record->bytes_alloc = record->bytes_req;
	kmem_emit(t, hit, record);
}

static int fill_from_cache(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t cache,
			   struct kmem_record *record)
{
	struct cache_info info;

	int ret = cache_ids_get(t->caches, cache, hit->batch, &info, NULL);

	if (ret)
		return ret;
	record->cache = info.id;
	record->bytes_alloc = info.size;
	if (record->type_id == KMEM_TYPE_CACHE)
		record->bytes_req = info.object_size;
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

void kmem_emit_alloc(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t cache,
		     struct kmem_record *record)
{
	int ret = cache ? fill_from_cache(t, hit, cache, record) : fill_from_pages(t, record);

	/* kvmalloc() may have given vmalloc memory, which is outside the direct map */
	if (ret == -ERANGE && !cache)
		return;
	/* a record without sizes would be a lie */
	if (!ret)
		kmem_emit(t, hit, record);
	else
		count_event(t->context.counters, COUNTER_LOST, 1);
}
