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
	bool undoes;               /* `undone` is a bulk allocation that failed half-way, */
	struct stash_entry undone; /* and what is freed here is what it had allocated */
};

static uint64_t argument(const struct free_call *call, enum alloc_role role)
{
	return kmem_argument(call->entry, call->words, role, 0);
}

/*
 * What the objects of a failed kmem_cache_alloc_bulk() are given back with: to 6.0
 * __kmem_cache_free_bulk() (mm/slab_common.c), which calls kmem_cache_free() for each, then
 * kmem_cache_free_bulk() of the same array.
 */
static bool gives_back(const struct free_call *call, const struct alloc_entry *bulk)
{
	const struct stash_entry *undone = &call->undone;
	uint64_t cache = kmem_argument(bulk, undone->words, ALLOC_ROLE_CACHE, 0);
	uint64_t array = kmem_argument(bulk, undone->words, ALLOC_ROLE_ARRAY, 0);

	if (bulk->action != ALLOC_ACTION_ALLOC_BULK || !cache ||
	    cache != argument(call, ALLOC_ROLE_CACHE))
		return false;
	if (call->entry->action == ALLOC_ACTION_FREE_BULK)
		return array == argument(call, ALLOC_ROLE_ARRAY);
	return kmem_is_in_body(call->t->context.kernel, call->hit->call_site,
			       "__kmem_cache_free_bulk");
}

static bool undoes_bulk(struct free_call *call)
{
	const struct probe *probe;

	if (!stash_enclosing(call->t->context.stash, call->hit->regs->rsp, &call->undone) ||
	    call->undone.tracer != call->t)
		return false;
	probe = call->undone.probe;
	return gives_back(call, probe->data);
}

static void alloc_undone(const struct free_call *call, uint64_t object)
{
	const struct probe *probe = call->undone.probe;

	kmem_alloc_object(call->t, probe->data, call->hit, &call->undone, object);
}

static void free_object(struct free_call *call, uint64_t object)
{
	if (object <= KMEM_ZERO_SIZE_PTR) {
		count_event(&call->t->context.counters->null_frees, 1);
		return;
	}
	/* its allocation was real, though the one who asked never saw it */
	if (call->undoes)
		alloc_undone(call, object);
	cache_ids_forget(call->t->caches, object);
	stash_forget_inner(call->t->context.stash, call->hit->regs->rsp, object);
	call->record.ptr = object;
	kmem_emit(call->t, call->hit, &call->record);
}

static void set_cache(struct free_call *call, uint64_t cache)
{
	struct cache_info info;

	if (cache && !cache_ids_get(call->t->caches, cache, &info, NULL))
		call->record.cache = info.id;
}

static void free_one(struct free_call *call)
{
	set_cache(call, argument(call, ALLOC_ROLE_CACHE));
	free_object(call, argument(call, ALLOC_ROLE_OBJECT));
}

static void free_objects(struct free_call *call, uint64_t array, uint64_t count)
{
	uint64_t objects[CHUNK];

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

static void free_array(struct free_call *call)
{
	if (!argument(call, ALLOC_ROLE_CACHE))
		call->record.type_id = KMEM_TYPE_KMALLOC;
	free_objects(call, argument(call, ALLOC_ROLE_ARRAY), argument(call, ALLOC_ROLE_COUNT));
}

/* After its grace period, before the callback has shown the sheaf to anybody who may allocate from
 * it. kfree_rcu() takes objects of both families. */
static void free_sheaf(struct free_call *call, uint64_t rcu_head)
{
	struct slab_sheaf sheaf;

	if (slab_sheaf_read(call->t->slab, rcu_head, &sheaf, NULL)) {
		count_event(&call->t->context.counters->lost, 1);
		return;
	}
	if (sheaf.is_kmalloc)
		call->record.type_id = KMEM_TYPE_KMALLOC;
	set_cache(call, sheaf.cache);
	free_objects(call, sheaf.objects, sheaf.count);
}

static void free_many_objects(struct free_call *call)
{
	uint64_t sheaf = argument(call, ALLOC_ROLE_SHEAF);

	sheaf ? free_sheaf(call, sheaf) : free_array(call);
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
	call.undoes = entry->type == KMEM_TYPE_CACHE && undoes_bulk(&call);
	if (entry->type == KMEM_TYPE_PAGES)
		bulk ? free_many_pages(&call) : free_page(&call);
	else
		bulk ? free_many_objects(&call) : free_one(&call);
}
