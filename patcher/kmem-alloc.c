/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/kmem-record.h"

static uint64_t argument(const struct alloc_entry *entry, const struct stash_entry *call,
			 enum alloc_role role, uint64_t otherwise)
{
	return kmem_argument(entry, call->words, role, otherwise);
}

/* Bulk page allocation fills the holes of an array: those at its start are not its work. */
static uint64_t count_filled(const struct kmem_tracer *t, uint64_t array, uint64_t count)
{
	uint64_t n = 0, page;

	while (n < count && n < KMEM_BULK_MAX &&
	       !kernel_read(t->context.kernel, array + n * 8, &page, sizeof(page), NULL) && page)
		n++;
	return n;
}

/*
 * kmalloc of more than any cache holds goes from one entry point to another, which would report the
 * first as its call site: the outer call is the one to record. Told apart from an allocation that
 * the outer one makes for its own use by the same size, asked for from within the outer one's body.
 */
static bool serves_outer_call(const struct kmem_tracer *t, const struct alloc_entry *entry,
			      const struct stash_entry *call)
{
	uint64_t size = argument(entry, call, ALLOC_ROLE_SIZE, 0);
	const struct probe *probe;
	struct stash_entry outer;

	if (entry->type != KMEM_TYPE_KMALLOC || size <= KMEM_MAX_CACHE_SIZE ||
	    !stash_enclosing(t->context.stash, call->key, &outer))
		return false;
	probe = outer.probe;
	return size == argument(probe->data, &outer, ALLOC_ROLE_SIZE, 0) &&
	       kmem_is_in_body(t->context.kernel, call->call_site, probe->name);
}

void kmem_alloc_entry(const struct kmem_tracer *t, const struct alloc_entry *entry,
		      struct stash_entry *call)
{
	uint64_t array = argument(entry, call, ALLOC_ROLE_ARRAY, 0);

	if (serves_outer_call(t, entry, call)) {
		count_event(&t->context.counters->nested, 1);
		call->ignored = true;
		return;
	}
	if (entry->type == KMEM_TYPE_PAGES && entry->action == ALLOC_ACTION_ALLOC_BULK && array)
		call->already_there =
			count_filled(t, array, argument(entry, call, ALLOC_ROLE_COUNT, 0));
}

/* One call of an allocating function that has returned. */
struct alloc_call {
	const struct kmem_tracer *t;
	const struct alloc_entry *entry;
	const struct probe_hit *hit;
	const struct stash_entry *call;
	struct kmem_record record;
	uint64_t left; /* of a list of pages: how many are new */
};

static void record_item(struct alloc_call *a, uint64_t item)
{
	/* the bulk page allocator falls back to the single one, which has made its own record */
	if (item == a->call->inner_result)
		return;
	if (a->entry->type == KMEM_TYPE_PAGES) {
		kmem_emit_pages(a->t, a->hit, item, 0, &a->record);
		return;
	}
	a->record.ptr = item;
	kmem_emit_alloc(a->t, a->hit, argument(a->entry, a->call, ALLOC_ROLE_CACHE, 0), &a->record);
}

static void record_array(struct alloc_call *a, uint64_t array, uint64_t count)
{
	if (count > KMEM_BULK_MAX) {
		count_event(&a->t->context.counters->lost, count - KMEM_BULK_MAX);
		count = KMEM_BULK_MAX;
	}
	for (uint64_t i = a->call->already_there; i < count; i++) {
		uint64_t item;

		if (kernel_read(a->t->context.kernel, array + i * 8, &item, sizeof(item), NULL)) {
			count_event(&a->t->context.counters->lost, count - i);
			return;
		}
		record_item(a, item);
	}
}

static int record_listed(void *arg, uint64_t page)
{
	struct alloc_call *a = arg;

	record_item(a, page);
	return --a->left == 0;
}

static bool record_bulk(struct alloc_call *a)
{
	uint64_t array = argument(a->entry, a->call, ALLOC_ROLE_ARRAY, 0);
	uint64_t list = argument(a->entry, a->call, ALLOC_ROLE_LIST, 0);
	uint64_t count = (uint32_t)a->hit->regs->rax;

	if (array) {
		record_array(a, array, count);
	} else if (list && count) {
		/* new pages are put at the head of the list */
		a->left = count;
		slab_for_each_listed_page(a->t->slab, list, KMEM_BULK_MAX, record_listed, a, NULL);
	}
	return false;
}

static bool record_single(struct alloc_call *a)
{
	uint64_t result = a->hit->regs->rax;

	if (result <= KMEM_ZERO_SIZE_PTR) {
		count_event(&a->t->context.counters->null_allocs, 1);
		return false;
	}
	if (result == a->call->inner_result) {
		count_event(&a->t->context.counters->nested, 1);
		return true;
	}
	if (a->entry->type == KMEM_TYPE_PAGES) {
		uint64_t order = argument(a->entry, a->call, ALLOC_ROLE_ORDER, 0);

		kmem_emit_pages(a->t, a->hit, result, kmem_order(order), &a->record);
		return true;
	}
	a->record.ptr = result;
	a->record.bytes_req = argument(a->entry, a->call, ALLOC_ROLE_SIZE, 0);
	kmem_emit_alloc(a->t, a->hit, argument(a->entry, a->call, ALLOC_ROLE_CACHE, 0), &a->record);
	return true;
}

static struct alloc_call begin_record(const struct kmem_tracer *t, const struct alloc_entry *entry,
				      const struct probe_hit *hit, const struct stash_entry *call)
{
	struct alloc_call a = {.t = t, .entry = entry, .hit = hit, .call = call};

	a.record.event_id = KMEM_EVENT_ALLOC;
	a.record.type_id = (uint8_t)entry->type;
	a.record.node = (int32_t)argument(entry, call, ALLOC_ROLE_NODE, (uint64_t)-1);
	a.record.gfp_flags = (uint32_t)argument(entry, call, ALLOC_ROLE_GFP, 0);
	a.record.call_site = kmem_call_site(t, entry, call->words, call->call_site, call->key);
	return a;
}

void kmem_alloc_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct stash_entry *call, uint64_t object)
{
	struct alloc_call a = begin_record(t, entry, hit, call);

	record_item(&a, object);
}

bool kmem_alloc_return(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct stash_entry *call)
{
	struct alloc_call a = begin_record(t, entry, hit, call);

	return entry->action == ALLOC_ACTION_ALLOC ? record_single(&a) : record_bulk(&a);
}
