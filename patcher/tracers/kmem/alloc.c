/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/kmem.h"

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

void kmem_alloc_entry(const struct kmem_tracer *t, const struct alloc_entry *entry,
		      const struct probe_hit *hit, struct open_call *call)
{
	if (serves_outer_call(t, entry, call)) {
		count_event(t->context.counters, COUNTER_NESTED, 1);
		call->ignored = true;
		return;
	}
	call->attributed_site = kmem_call_site(t, entry, hit);
	if (!filled_pages_note(t->filled, call->key, hit->items, hit->nr_items)) {
		count_event(t->context.counters, COUNTER_LOST, 1);
		call->ignored = true;
	}
}

/* One call of an allocating function that has returned. */
struct alloc_call {
	const struct kmem_tracer *t;
	const struct alloc_entry *entry;
	const struct probe_hit *hit;
	const struct open_call *call;
	struct kmem_record record;
};

static void emit_alloc(struct alloc_call *a)
{
	uint64_t cache = argument(a->entry, a->call, ALLOC_ROLE_CACHE, a->hit->slab_cache);

	kmem_emit_alloc(a->t, a->hit, cache, &a->record);
}

static void record_item(struct alloc_call *a, uint64_t item)
{
	/* the bulk page allocator falls back to the single one, whose call has its own record */
	if (item == a->call->inner_result) {
		count_event(a->t->context.counters, COUNTER_NESTED, 1);
		return;
	}
	if (a->entry->type == KMEM_TYPE_PAGES) {
		if (filled_pages_take(a->t->filled, a->call->key, item))
			return;
		kmem_emit_pages(a->t, a->hit, item, 0, &a->record);
		return;
	}
	a->record.ptr = item;
	emit_alloc(a);
}

/* How many a bulk call says it has got. */
static uint64_t returned_objects(const struct alloc_call *a)
{
	if (!a->entry->all_or_none)
		return (uint32_t)a->hit->result;
	return (uint8_t)a->hit->result ? argument(a->entry, a->call, ALLOC_ROLE_COUNT, 0) : 0;
}

/* More than any call gets, and no error: none of it was read. */
static bool claims_too_many(const struct alloc_call *a)
{
	bool is_error = !a->entry->all_or_none && (int32_t)a->hit->result < 0;

	return !is_error && probe_hit_all_items(a->hit) > CAPTURE_ITEMS_PER_CALL;
}

static bool record_bulk(struct alloc_call *a)
{
	if (!a->hit->saved)
		count_event(a->t->context.counters, COUNTER_LOST, returned_objects(a));
	else if (claims_too_many(a))
		count_event(a->t->context.counters, COUNTER_LOST, 1);
	for (size_t i = 0; i < a->hit->nr_items; i++)
		record_item(a, a->hit->items[i]);
	return false;
}

static bool record_single(struct alloc_call *a)
{
	uint64_t result = a->hit->result;

	if (result <= KMEM_ZERO_SIZE_PTR) {
		count_event(a->t->context.counters, COUNTER_NULL_ALLOCS, 1);
		return false;
	}
	if (result == a->call->inner_result) {
		count_event(a->t->context.counters, COUNTER_NESTED, 1);
		return true;
	}
	if (a->entry->type == KMEM_TYPE_PAGES) {
		uint64_t order = argument(a->entry, a->call, ALLOC_ROLE_ORDER, 0);

		kmem_emit_pages(a->t, a->hit, result, kmem_order(order), &a->record);
		return true;
	}
	a->record.ptr = result;
	a->record.bytes_req = argument(a->entry, a->call, ALLOC_ROLE_SIZE, 0);
	emit_alloc(a);
	return true;
}

static struct alloc_call begin_record(const struct kmem_tracer *t, const struct alloc_entry *entry,
				      const struct probe_hit *hit, const struct open_call *call)
{
	struct alloc_call a = {.t = t, .entry = entry, .hit = hit, .call = call};

	a.record.event_id = KMEM_EVENT_ALLOC;
	a.record.type_id = (uint8_t)entry->type;
	a.record.node = (int32_t)argument(entry, call, ALLOC_ROLE_NODE, (uint64_t)-1);
	a.record.gfp_flags = (uint32_t)argument(entry, call, ALLOC_ROLE_GFP, 0);
	a.record.call_site = call->attributed_site;
	return a;
}

void kmem_alloc_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call, uint64_t object)
{
	struct alloc_call a = begin_record(t, entry, hit, call);

	record_item(&a, object);
}

bool kmem_alloc_return(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call)
{
	struct alloc_call a = begin_record(t, entry, hit, call);

	return entry->action == ALLOC_ACTION_ALLOC ? record_single(&a) : record_bulk(&a);
}
