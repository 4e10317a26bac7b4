/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What completes a record: the call site, sizes, the cache. */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

/* --- the slab caches seen so far ------------------------------------------------------------- */

/* A guest has a few hundred caches; a hostile one gets no more memory than this. */
enum { MAX_CACHES = 65535 };

struct cache_info {
	uint64_t object_size, size; /* bytes */
	uint64_t batch;             /* of the hit for which the sizes were read last */
	uint16_t id;                /* in the trace's cache table */
};

struct cache_ids {
	struct slab_view *slab;
	struct trace_writer *writer;
	struct u64_map by_address; /* -> struct cache_info */
};

int cache_ids_create(struct slab_view *slab, struct trace_writer *writer, struct cache_ids **out,
		     struct error *err)
{
	struct cache_ids *ids = calloc(1, sizeof(*ids));

	if (!ids)
		return error_set(err, ENOMEM, "out of memory");
	ids->slab = slab;
	ids->writer = writer;
	u64_map_init(&ids->by_address, sizeof(struct cache_info));
	*out = ids;
	return 0;
}

void cache_ids_destroy(struct cache_ids *ids)
{
	if (!ids)
		return;
	u64_map_deinit(&ids->by_address);
	free(ids);
}

/* Merging a new cache into an old one raises the old one's object size. */
static bool is_current(const struct cache_ids *ids, uint64_t cache, uint64_t batch,
		       struct cache_info *known)
{
	uint64_t object_size, size;

	if (batch && batch == known->batch)
		return true;
	known->batch = batch;
	return !slab_cache_sizes(ids->slab, cache, &object_size, &size, NULL) &&
	       object_size == known->object_size && size == known->size;
}

static void remember(struct cache_ids *ids, uint64_t cache, const struct cache_info *info)
{
	struct cache_info *slot = NULL;

	if (ids->by_address.count < MAX_CACHES)
		slot = u64_map_insert(&ids->by_address, cache, NULL);
	if (slot)
		*slot = *info;
}

/* Sizes and id of a cache, for a hit of this batch (probe.h). */
static int cache_ids_get(struct cache_ids *ids, uint64_t cache, uint64_t batch,
			 struct cache_info *out, struct error *err)
{
	struct cache_info *known = u64_map_find(&ids->by_address, cache);
	struct slab_cache read;
	int ret;

	if (known && is_current(ids, cache, batch, known)) {
		*out = *known;
		return 0;
	}
	ret = slab_cache_read(ids->slab, cache, &read, err);
	if (ret)
		return ret;
	*out = (struct cache_info){
		.object_size = read.object_size, .size = read.size, .batch = batch};
	/* In early boot a cache has its sizes before its name: it is read again the next time. */
	if (read.name[0] == '?' || read.name[0] == '\0')
		return 0;
	out->id = trace_writer_cache_id(ids->writer, read.name, read.object_size, read.size);
	remember(ids, cache, out);
	return 0;
}

int cache_ids_find(struct cache_ids *ids, uint64_t cache, uint16_t *id)
{
	const struct cache_info *known = u64_map_find(&ids->by_address, cache);
	struct cache_info info;
	int ret = 0;

	if (!known) {
		ret = cache_ids_get(ids, cache, 0, &info, NULL);
		known = &info;
	}
	if (!ret)
		*id = known->id;
	return ret;
}

void cache_ids_forget(struct cache_ids *ids, uint64_t cache)
{
	u64_map_remove(&ids->by_address, cache);
}

/* --- records --------------------------------------------------------------------------------- */

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

static bool is_wanted(const struct kmem_output *output, unsigned int vcpu,
		      const struct kmem_record *record)
{
	return output->stream.sinks && output->types & 1u << record->type_id &&
	       output->vcpus >> vcpu & 1 &&
	       (!output->filter || kmem_filter_matches(output->filter, vcpu, record));
}

void kmem_emit(const struct kmem_tracer *t, const struct probe_hit *hit, struct kmem_record *record)
{
	if (!(t->types & 1u << record->type_id))
		return;
	record->timestamp = (int64_t)hit->time_ns;
	for (size_t i = 0; i < t->nr_outputs; i++) {
		const struct tracer_stream *stream = &t->outputs[i].stream;

		if (is_wanted(&t->outputs[i], hit->vcpu, record))
			stream->output->put(t->context.batch, stream->sinks[hit->vcpu],
					    kmem_class_of(record), record->timestamp, record);
	}
}

void kmem_emit_pages(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t page,
		     unsigned int order, struct kmem_record *record)
{
	if (slab_page_address(t->slab, page, &record->ptr, NULL)) {
		count_event(t->context.counters, COUNTER_UNREADABLE, 1);
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

/* BTF does not show where a cache is, or what it is: the request is known nevertheless. */
static bool lacks_cache(const struct kmem_tracer *t, uint64_t cache,
			const struct kmem_record *record)
{
	return record->type_id == KMEM_TYPE_KMALLOC &&
	       (cache || record->bytes_req <= KMEM_MAX_CACHE_SIZE) &&
	       slab_in_direct_map(t->slab, record->ptr) &&
	       slab_missing(t->slab, cache ? SLAB_CACHES : SLAB_OBJECTS);
}

void kmem_emit_alloc(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t cache,
		     struct kmem_record *record)
{
	int ret = 0;

	if (lacks_cache(t, cache, record))
		record->bytes_alloc = record->bytes_req;
	else
		ret = cache ? fill_from_cache(t, hit, cache, record) : fill_from_pages(t, record);

	/* kvmalloc() may have given vmalloc memory, which is outside the direct map: its pages have
	 * records of their own. A record without sizes would be wrong. */
	if (!ret)
		kmem_emit(t, hit, record);
	else if (ret == -ERANGE && !cache)
		count_event(t->context.counters, COUNTER_VMALLOC_ALLOCS, 1);
	else
		count_event(t->context.counters, COUNTER_UNREADABLE, 1);
}
