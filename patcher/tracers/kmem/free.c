/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

/* One call of a freeing function; it makes one record, or one per object. */
struct free_call {
	const struct kmem_tracer *t;
	const struct alloc_entry *entry;
	const struct probe_hit *hit; /* of what is not simple */
	uint64_t call_site, cache;
	struct kmem_moment at;
	struct kmem_record record;
	struct event_task task;
	struct open_call *outer; /* an allocation that this is inside of; or NULL */
	/* A bulk allocation that failed half-way, whose objects are freed here; or NULL. */
	const struct open_call *undone;
};

static uint64_t argument(const struct free_call *call, enum alloc_role role)
{
	return kmem_argument(call->entry, call->hit->args, role, 0);
}

/*
 * What the objects of a failed kmem_cache_alloc_bulk() are given back with: to 6.0
 * __kmem_cache_free_bulk() (mm/slab_common.c), which calls kmem_cache_free() for each, then
 * kmem_cache_free_bulk() of the same array.
 */
static bool gives_back(const struct free_call *call, const struct alloc_entry *bulk)
{
	const struct open_call *undone = call->undone;
	uint64_t cache = kmem_argument(bulk, undone->words, ALLOC_ROLE_CACHE, 0);
	uint64_t array = kmem_argument(bulk, undone->words, ALLOC_ROLE_ARRAY, 0);

	if (bulk->action != ALLOC_ACTION_ALLOC_BULK || !cache || cache != call->cache)
		return false;
	if (call->entry->action == ALLOC_ACTION_FREE_BULK)
		return array == argument(call, ALLOC_ROLE_ARRAY);
	return kmem_is_in_body(call->t->context.kernel, call->call_site, "__kmem_cache_free_bulk");
}

static void find_undone(struct free_call *call)
{
	const struct open_call *outer = call->outer;

	if (!outer || outer->tracer != &call->t->tracer)
		return;
	call->undone = outer;
	if (!gives_back(call, outer->probe->data))
		call->undone = NULL;
}

static void alloc_undone(const struct free_call *call, uint64_t object)
{
	const struct probe *probe = call->undone->probe;

	kmem_alloc_object(call->t, probe->data, &call->at, call->undone, object);
}

/* Whether there is an object. */
static inline bool is_object(const struct kmem_tracer *t, uint64_t object)
{
	if (object > KMEM_ZERO_SIZE_PTR)
		return true;
	count_event(t->context.counters, COUNTER_NULL_FREES, 1);
	return false;
}

static inline void emit_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
			       const struct kmem_moment *at, uint64_t object,
			       struct kmem_record *record)
{
	/* a struct kmem_cache comes from a cache (mm/slab_common.c) */
	if (entry->type == KMEM_TYPE_CACHE)
		cache_ids_free(t->caches, object, at->ns);
	record->ptr = object;
	kmem_emit(t, at, record);
}

static void free_object(struct free_call *call, uint64_t object)
{
	if (!is_object(call->t, object))
		return;
	/* its allocation was real, though the caller of the bulk allocation never got it */
	if (call->undone)
		alloc_undone(call, object);
	call_table_forget_inner(call->outer, object);
	emit_object(call->t, call->entry, &call->at, object, &call->record);
}

static inline uint16_t find_cache(const struct kmem_tracer *t, uint64_t cache, int64_t ns)
{
	const struct cache_info *info = cache ? cache_ids_find(t->caches, cache, ns) : NULL;

	return info ? info->id : 0;
}

/* After its grace period. kfree_rcu() takes objects of both families. */
static void set_sheaf(struct free_call *call)
{
	bool is_kmalloc = false;

	slab_cache_is_kmalloc(call->t->slab, call->hit->owner, &is_kmalloc, NULL);
	if (is_kmalloc)
		call->record.type_id = KMEM_TYPE_KMALLOC; /* has no cache */
	else
		call->record.cache = find_cache(call->t, call->hit->owner, call->at.ns);
}

static void free_many_objects(struct free_call *call)
{
	if (argument(call, ALLOC_ROLE_SHEAF))
		set_sheaf(call);
	else if (!argument(call, ALLOC_ROLE_CACHE))
		call->record.type_id = KMEM_TYPE_KMALLOC; /* kfree_bulk() */
	for (size_t i = 0; i < call->hit->nr_items; i++)
		free_object(call, call->hit->items[i]);
}

static void free_many_pages(struct free_call *call)
{
	for (size_t i = 0; i < call->hit->nr_items; i++) {
		uint64_t item = call->hit->items[i];

		kmem_emit_pages(call->t, &call->at, page_item_page(item), page_item_order(item),
				&call->record);
	}
}

/* Whoever drops the last reference frees the page. */
static void free_last(struct free_call *call)
{
	if (!call->hit->nr_items)
		count_event(call->t->context.counters, COUNTER_NESTED, 1);
	free_many_pages(call);
}

static void free_page(struct free_call *call)
{
	uint64_t page = argument(call, ALLOC_ROLE_PAGE);

	if (page)
		kmem_emit_pages(call->t, &call->at, page, argument(call, ALLOC_ROLE_ORDER),
				&call->record);
	else
		count_event(call->t->context.counters, COUNTER_NULL_FREES, 1);
}

/* Whether a call is one that counts. */
static inline bool counts(const struct kmem_tracer *t, const struct alloc_entry *entry,
			  uint64_t call_site)
{
	if (alloc_call_counts(entry, kernel_link(t->context.kernel, call_site)))
		return true;
	count_event(t->context.counters, COUNTER_NESTED, 1);
	return false;
}

static inline struct kmem_record begin_record(const struct alloc_entry *entry)
{
	return (struct kmem_record){.event_id = KMEM_EVENT_FREE, .type_id = (uint8_t)entry->type};
}

static void begin(struct free_call *call, const struct kmem_tracer *t,
		  const struct alloc_entry *entry, uint64_t call_site, struct open_call *outer)
{
	call->t = t;
	call->entry = entry;
	call->call_site = call_site;
	call->record = begin_record(entry);
	call->outer = outer;
	call->undone = NULL;
}

static void note_task(struct free_call *call, const struct probe_record *record)
{
	call->task = probe_record_task(record);
	call->at.task = &call->task;
	call->at.lacks = kmem_lacks(call->t, record->fields);
	kmem_note_chain(call->t, record);
}

void kmem_free_entry(const struct kmem_tracer *t, const struct probe *probe,
		     const struct probe_hit *hit)
{
	const struct alloc_entry *entry = probe->data;
	struct probe_record record;
	struct probe_cpu cpu;
	struct free_call call;

	if (!counts(t, entry, hit->call_site))
		return;
	begin(&call, t, entry, hit->call_site, call_table_enclosing(t->context.calls, hit->key));
	call.hit = hit;
	call.at = kmem_moment_of(hit);
	if (t->view->captured) {
		record = probe_record_of(hit, &cpu);
		note_task(&call, &record);
	}
	call.cache = argument(&call, ALLOC_ROLE_CACHE);
	call.record.call_site = kmem_call_site(t, entry, hit);
	if (entry->type == KMEM_TYPE_CACHE)
		find_undone(&call);
	if (entry->type != KMEM_TYPE_PAGES)
		free_many_objects(&call);
	else if (entry->action == ALLOC_ACTION_FREE_LAST)
		free_last(&call);
	else if (entry->action == ALLOC_ACTION_FREE_BULK)
		free_many_pages(&call);
	else
		free_page(&call);
}

static inline uint64_t taken_argument(const struct alloc_entry *entry,
				      const struct probe_record *record, enum alloc_role role,
				      uint64_t otherwise)
{
	uint8_t argument = entry->argument[role];

	return argument ? probe_record_word(record, FIELD_ARG0 + argument - 1) : otherwise;
}

/* Inside of an allocation, or by a task that is recorded. */
__attribute__((noinline)) static void take_inner(const struct kmem_tracer *t,
						 const struct probe *probe,
						 const struct probe_record *record,
						 uint64_t call_site, struct open_call *outer)
{
	const struct alloc_entry *entry = probe->data;
	struct free_call call;

	begin(&call, t, entry, call_site, outer);
	call.at = kmem_moment_of_record(record);
	if (t->view->captured)
		note_task(&call, record);
	call.cache = taken_argument(entry, record, ALLOC_ROLE_CACHE, 0);
	call.record.call_site = taken_argument(entry, record, ALLOC_ROLE_CALLER, call_site);
	if (entry->type == KMEM_TYPE_CACHE)
		find_undone(&call);
	call.record.cache = find_cache(t, call.cache, call.at.ns);
	free_object(&call, taken_argument(entry, record, ALLOC_ROLE_OBJECT, 0));
}

/* All others. */
static inline void take_alone(const struct kmem_tracer *t, const struct alloc_entry *entry,
			      const struct probe_record *record, uint64_t call_site)
{
	const struct kmem_moment at = kmem_moment_of_record(record);
	const uint64_t object = taken_argument(entry, record, ALLOC_ROLE_OBJECT, 0);
	struct kmem_record out = begin_record(entry);

	out.call_site = taken_argument(entry, record, ALLOC_ROLE_CALLER, call_site);
	out.cache = find_cache(t, taken_argument(entry, record, ALLOC_ROLE_CACHE, 0), at.ns);
	if (is_object(t, object))
		emit_object(t, entry, &at, object, &out);
}

void kmem_free_take(struct tracer *tracer, const struct probe *probe,
		    const struct probe_record *record)
{
	const struct kmem_tracer *t = (const struct kmem_tracer *)tracer;
	const uint64_t call_site = probe_record_word(record, FIELD_CALL_SITE);
	struct open_call *outer;

	if (!counts(t, probe->data, call_site))
		return;
	outer = call_table_enclosing(t->context.calls,
				     probe_record_word(record, FIELD_KEY) + RECORD_KEY_BIAS);
	if (outer || t->view->captured)
		take_inner(t, probe, record, call_site, outer);
	else
		take_alone(t, probe->data, record, call_site);
}
