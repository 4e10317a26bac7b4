/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>

static uint64_t argument(const struct alloc_entry *entry, const struct open_call *call,
			 enum alloc_role role, uint64_t otherwise)
{
	return kmem_argument(entry, call->words, role, otherwise);
}

/*
 * kmalloc of more than any cache holds goes from one entry point to another, which would report the
 * first as its call site: the outer call is the one to record. An allocation that the outer call
 * makes for its own use differs from it: its size is another one, or its call site is not in the
 * outer function's body.
 */
static bool serves_outer_call(const struct kmem_tracer *t, const struct alloc_entry *entry,
			      const struct open_call *call)
{
	uint64_t size = argument(entry, call, ALLOC_ROLE_SIZE, 0);
	const struct open_call *outer = NULL;
	const struct probe *probe;

	if (entry->type == KMEM_TYPE_KMALLOC && size > KMEM_MAX_CACHE_SIZE)
		outer = call_table_enclosing(t->context.calls, call->key);
	if (!outer)
		return false;
	probe = outer->probe;
	return size == argument(probe->data, outer, ALLOC_ROLE_SIZE, 0) &&
	       kmem_is_in_body(t->context.kernel, call->call_site, probe->name);
}

/* True: another call has its record. */
static bool is_inner(const struct kmem_tracer *t, const struct alloc_entry *entry,
		     struct open_call *call)
{
	call->ignored = serves_outer_call(t, entry, call);
	if (call->ignored)
		count_event(t->context.counters, COUNTER_NESTED, 1);
	return call->ignored;
}

/* Also if the view in use has none: the next one may, before the call returns. */
static inline void note_task(struct open_call *call, const struct probe_record *record)
{
	call->task_fields = record->fields & CAPTURE_TASK;
	if (call->task_fields)
		call->task = probe_record_task(record);
}

void kmem_alloc_entry(const struct kmem_tracer *t, const struct probe *probe,
		      const struct probe_hit *hit, struct open_call *call)
{
	const struct alloc_entry *entry = probe->data;
	struct probe_record record;
	struct probe_cpu cpu;

	record = probe_record_of(hit, &cpu);
	note_task(call, &record);
	if (is_inner(t, entry, call))
		return;
	call->attributed_site = kmem_call_site(t, entry, hit);
	if (!filled_pages_note(t->filled, &call->number, hit->items, hit->nr_items)) {
		count_event(t->context.counters, COUNTER_LOST, 1);
		call->ignored = true;
	}
}

void kmem_alloc_take(struct tracer *tracer, const struct probe *probe,
		     const struct probe_record *record, struct open_call *call)
{
	const struct kmem_tracer *t = (const struct kmem_tracer *)tracer;
	const struct alloc_entry *entry = probe->data;
	uint32_t left = record->fields >> FIELD_ARG0 & ((1u << CAPTURE_ARGUMENTS) - 1);

	for (; left; left &= left - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(left);

		call->words[i] = probe_record_word(record, FIELD_ARG0 + i);
	}
	note_task(call, record);
	if (!is_inner(t, entry, call))
		call->attributed_site = argument(entry, call, ALLOC_ROLE_CALLER, call->call_site);
}

/* One call of an allocating function that has returned. */
struct alloc_call {
	const struct kmem_tracer *t;
	const struct alloc_entry *entry;
	const struct open_call *call;
	struct kmem_moment at;
	struct kmem_record record;
};

static inline struct kmem_record begin_record(const struct alloc_entry *entry,
					      const struct open_call *call)
{
	return (struct kmem_record){
		.event_id = KMEM_EVENT_ALLOC,
		.type_id = (uint8_t)entry->type,
		.node = (int32_t)argument(entry, call, ALLOC_ROLE_NODE, (uint64_t)-1),
		.gfp_flags = (uint32_t)argument(entry, call, ALLOC_ROLE_GFP, 0),
		.call_site = call->attributed_site,
	};
}

/* What returns belongs to the task that called. `fields`: what was captured at the return. */
static inline void set_task(const struct kmem_tracer *t, const struct open_call *call,
			    uint32_t fields, struct kmem_moment *at)
{
	if (!t->view->captured)
		return;
	at->task = &call->task;
	at->lacks = kmem_lacks(t, call->task_fields | (fields & CAPTURE(FIELD_CHAIN)));
}

static inline int fill_from_cache(const struct kmem_tracer *t, const struct kmem_moment *at,
				  uint64_t cache, struct kmem_record *record)
{
	const struct cache_info *info = cache_ids_get(t->caches, cache, at->batch, at->ns);

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
	if (record->bytes_req <= KMEM_MAX_CACHE_SIZE ||
	    record->bytes_req > (uint64_t)KMEM_PAGE_SIZE << KMEM_MAX_ORDER)
		return -EINVAL;
	while (bytes < record->bytes_req)
		bytes *= 2;
	record->bytes_alloc = bytes;
	return 0;
}

/* BTF does not show where a cache is, or what it is: the request is known nevertheless. */
static inline bool lacks_cache(const struct kmem_tracer *t, uint64_t cache,
			       const struct kmem_record *record)
{
	return record->type_id == KMEM_TYPE_KMALLOC &&
	       (cache || record->bytes_req <= KMEM_MAX_CACHE_SIZE) &&
	       slab_missing(t->slab, cache ? SLAB_CACHES : SLAB_OBJECTS) &&
	       slab_in_direct_map(t->slab, record->ptr);
}

/* Complete (sizes, cache id) and emit an allocation from `cache`, or of whole pages by kmalloc() if
 * that is 0. */
static inline __attribute__((always_inline)) void emit_alloc(const struct kmem_tracer *t,
							     const struct kmem_moment *at,
							     uint64_t cache,
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

static void record_item(struct alloc_call *a, uint64_t item)
{
	/* the bulk page allocator falls back to the single one, whose call has its own record */
	if (item == a->call->inner_result) {
		count_event(a->t->context.counters, COUNTER_NESTED, 1);
		return;
	}
	if (a->entry->type == KMEM_TYPE_PAGES) {
		if (filled_pages_take(a->t->filled, a->call->number, item))
			count_event(a->t->context.counters, COUNTER_NESTED, 1);
		else
			kmem_emit_pages(a->t, &a->at, item, 0, &a->record);
		return;
	}
	a->record.ptr = item;
	emit_alloc(a->t, &a->at, argument(a->entry, a->call, ALLOC_ROLE_CACHE, 0), &a->record);
}

/* How many a bulk call says it has got; of an error, 0. */
static uint64_t returned_objects(const struct alloc_call *a, const struct probe_hit *hit)
{
	if (!a->entry->all_or_none)
		return (int32_t)hit->result < 0 ? 0 : (uint32_t)hit->result;
	return (uint8_t)hit->result ? argument(a->entry, a->call, ALLOC_ROLE_COUNT, 0) : 0;
}

/* Of these: pages in front of the array's first hole, which were there before. */
static uint64_t objects_before(const struct alloc_call *a, const struct probe_hit *hit)
{
	uint64_t returned = returned_objects(a, hit);

	if (a->entry->all_or_none)
		return 0;
	return returned < hit->saved - 1 ? returned : hit->saved - 1;
}

/* What is no item, with the first of the return's hits. */
static void count_no_items(const struct alloc_call *a, const struct probe_hit *hit)
{
	struct live_counters *counters = a->t->context.counters;
	uint64_t returned = returned_objects(a, hit);

	if (a->call->items_seen)
		return;
	if (!returned) {
		count_event(counters, COUNTER_NULL_ALLOCS, 1);
		return;
	}
	if (!hit->saved) {
		count_event(counters, COUNTER_LOST, returned);
		return;
	}
	/* more than any call gets: none of it was read */
	if (probe_hit_all_items(hit) > CAPTURE_ITEMS_PER_CALL)
		count_event(counters, COUNTER_LOST, 1);
	count_event(counters, COUNTER_NESTED, objects_before(a, hit));
}

static bool record_bulk(struct alloc_call *a, const struct probe_hit *hit)
{
	count_no_items(a, hit);
	for (size_t i = 0; i < hit->nr_items; i++)
		record_item(a, hit->items[i]);
	return false;
}

/* Whether a single allocation has a record of its own; *recorded: its result is recorded. */
static inline bool is_recorded(const struct kmem_tracer *t, const struct open_call *call,
			       uint64_t result, bool *recorded)
{
	*recorded = result > KMEM_ZERO_SIZE_PTR;
	if (!*recorded)
		count_event(t->context.counters, COUNTER_NULL_ALLOCS, 1);
	else if (result == call->inner_result)
		count_event(t->context.counters, COUNTER_NESTED, 1);
	else
		return true;
	return false;
}

static bool record_pages(struct alloc_call *a, uint64_t result)
{
	uint64_t order = argument(a->entry, a->call, ALLOC_ROLE_ORDER, 0);
	bool recorded;

	if (is_recorded(a->t, a->call, result, &recorded))
		kmem_emit_pages(a->t, &a->at, result, order, &a->record);
	return recorded;
}

void kmem_alloc_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct kmem_moment *at, const struct open_call *call, uint64_t object)
{
	struct alloc_call a = {t, entry, call, *at, begin_record(entry, call)};

	set_task(t, call, t->view->captured & ~at->lacks, &a.at);
	record_item(&a, object);
}

bool kmem_alloc_return(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call)
{
	struct alloc_call a = {t, entry, call, kmem_moment_of(hit), begin_record(entry, call)};
	struct probe_record record;
	struct probe_cpu cpu;

	set_task(t, call, hit->fields, &a.at);
	if (a.at.task) {
		record = probe_record_of(hit, &cpu);
		kmem_note_chain(t, &record);
	}
	return entry->action == ALLOC_ACTION_ALLOC ? record_pages(&a, hit->result)
						   : record_bulk(&a, hit);
}

/* The cache that the guest has found for the object; 0: none. */
static inline uint64_t found_cache(const struct probe_record *record)
{
	return record->fields & CAPTURE(FIELD_SLAB_CACHE)
		       ? probe_record_word(record, FIELD_SLAB_CACHE)
		       : 0;
}

bool kmem_alloc_take_return(struct tracer *tracer, const struct probe *probe,
			    const struct probe_record *record, const struct open_call *call)
{
	const struct kmem_tracer *t = (const struct kmem_tracer *)tracer;
	const struct alloc_entry *entry = probe->data;
	const uint64_t result = probe_record_word(record, FIELD_RESULT);
	struct kmem_moment at;
	struct kmem_record out;
	bool recorded;

	if (!is_recorded(t, call, result, &recorded))
		return recorded;
	at = kmem_moment_of_record(record);
	set_task(t, call, record->fields, &at);
	if (at.task)
		kmem_note_chain(t, record);
	out = begin_record(entry, call);
	out.ptr = result;
	out.bytes_req = argument(entry, call, ALLOC_ROLE_SIZE, 0);
	emit_alloc(t, &at, argument(entry, call, ALLOC_ROLE_CACHE, found_cache(record)), &out);
	return true;
}
