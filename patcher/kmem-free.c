/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/kmem-record.h"

enum { CHUNK = 64 };

/* One call of a freeing function; it makes one record, or one per object. */
struct free_call {
	const struct kmem_tracer *t;
	const struct alloc_entry *entry;
	const struct probe_hit *hit;
	uint64_t words[STASH_WORDS];
	struct kmem_record record;
};

static uint64_t argument(const struct free_call *call, enum alloc_role role)
{
	return kmem_argument(call->entry, call->words, role, 0);
}

static void free_object(struct free_call *call, uint64_t object)
{
	if (object <= KMEM_ZERO_SIZE_PTR) {
		count_event(&call->t->context.counters->null_frees, 1);
		return;
	}
	cache_ids_forget(call->t->caches, object);
	stash_forget_inner(call->t->context.stash, call->hit->regs->rsp, object);
	call->record.ptr = object;
	kmem_emit(call->t, call->hit, &call->record);
}

static void free_one(struct free_call *call)
{
	uint64_t cache = argument(call, ALLOC_ROLE_CACHE);
	struct cache_info info;

	if (cache && !cache_ids_get(call->t->caches, cache, &info, NULL))
		call->record.cache = info.id;
	free_object(call, argument(call, ALLOC_ROLE_OBJECT));
}

static void free_array(struct free_call *call)
{
	uint64_t array = argument(call, ALLOC_ROLE_ARRAY);
	uint64_t count = argument(call, ALLOC_ROLE_COUNT);
	uint64_t objects[CHUNK];

	if (!argument(call, ALLOC_ROLE_CACHE))
		call->record.type_id = KMEM_TYPE_KMALLOC;
	if (count > KMEM_BULK_MAX) {
		count_event(&call->t->context.counters->lost, count - KMEM_BULK_MAX);
		count = KMEM_BULK_MAX;
	}
	for (uint64_t i = 0; i < count; i += CHUNK) {
		size_t n = count - i < CHUNK ? count - i : CHUNK;

		if (kernel_read(call->t->context.kernel, array + i * 8, objects, n * 8, NULL)) {
			count_event(&call->t->context.counters->lost, count - i);
			return;
		}
		for (size_t j = 0; j < n; j++)
			free_object(call, objects[j]);
	}
}

static int free_page_of_many(void *arg, uint64_t page)
{
	struct free_call *call = arg;
	unsigned int order = 0;

	slab_page_order(call->t->slab, page, &order, NULL);
	kmem_emit_pages(call->t, call->hit, page, kmem_order(order), &call->record);
	return 0;
}

static void free_many_pages(struct free_call *call)
{
	uint64_t list = argument(call, ALLOC_ROLE_LIST);
	uint64_t batch = argument(call, ALLOC_ROLE_BATCH);
	struct slab_view *slab = call->t->slab;
	int ret;

	if (list)
		ret = slab_for_each_listed_page(slab, list, KMEM_BULK_MAX, free_page_of_many, call,
						NULL);
	else
		ret = slab_for_each_batched_folio(slab, batch, free_page_of_many, call, NULL);
	if (ret)
		count_event(&call->t->context.counters->lost, 1);
}

static void free_page(struct free_call *call)
{
	uint64_t page = argument(call, ALLOC_ROLE_PAGE);

	if (page)
		kmem_emit_pages(call->t, call->hit, page,
				kmem_order(argument(call, ALLOC_ROLE_ORDER)), &call->record);
	else
		count_event(&call->t->context.counters->null_frees, 1);
}

void kmem_free_entry(const struct kmem_tracer *t, const struct alloc_entry *entry,
		     const struct probe_hit *hit)
{
	struct free_call call = {.t = t, .entry = entry, .hit = hit};
	bool bulk = entry->action == ALLOC_ACTION_FREE_BULK;

	for (unsigned int i = 0; i < STASH_WORDS; i++)
		call.words[i] = guest_regs_argument(hit->regs, i);
	call.record.event_id = KMEM_EVENT_FREE;
	call.record.type_id = (uint8_t)entry->type;
	call.record.call_site =
		kmem_call_site(t, entry, call.words, hit->call_site, hit->regs->rsp);
	if (entry->type == KMEM_TYPE_PAGES)
		bulk ? free_many_pages(&call) : free_page(&call);
	else
		bulk ? free_array(&call) : free_one(&call);
}
