/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/heap/internal.h"

enum { MAX_ORDER = 10, MAX_BLOCK = HEAP_PAGE_SIZE << MAX_ORDER /* bytes, of the page allocator */ };

struct heap *heap_create(const struct sidecar *sidecar, heap_change_fn *fn, void *arg)
{
	struct heap *heap = calloc(1, sizeof(*heap));

	if (!heap)
		return NULL;
	heap->sidecar = sidecar;
	heap->fn = fn;
	heap->arg = arg;
	slabs_init(&heap->slabs);
	origins_init(&heap->origins);
	callers_init(&heap->callers);
	heap_tasks_init(&heap->tasks);
	if (!lives_init(&heap->objects) && !lives_init(&heap->blocks))
		return heap;
	heap_destroy(heap);
	return NULL;
}

void heap_destroy(struct heap *heap)
{
	if (!heap)
		return;
	lives_deinit(&heap->objects);
	lives_deinit(&heap->blocks);
	slabs_deinit(&heap->slabs);
	origins_deinit(&heap->origins);
	callers_deinit(&heap->callers);
	heap_tasks_deinit(&heap->tasks);
	free(heap);
}

void heap_set_fn(struct heap *heap, heap_change_fn *fn, void *arg)
{
	heap->fn = fn;
	heap->arg = arg;
}

void heap_ignore_chains(struct heap *heap)
{
	heap->callers.ignores_chains = true;
}

/* --- lives ----------------------------------------------------------------------------------- */

/* What events mostly are is compiled for objects and for blocks apart. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static int report(struct heap *heap, struct heap_change *change, const struct heap_object *object)
{
	change->object = object;
	return heap->fn(heap->arg, change);
}

/* Returns the cache whose slab it was, or 0. */
static uint16_t forget_block(struct heap *heap, uint64_t ptr, const struct heap_object *block)
{
	struct heap_origin *origin = &heap->origins.all[block->origin];

	const enum heap_role role = origins_role(&heap->origins, block);

	heap_sum_remove(&heap->totals.pages[role], 1, block->bytes);
	sum_subtract(&origin->live_bytes, block->bytes);
	return role == HEAP_SLAB ? slabs_remove_block(heap, ptr, block) : 0;
}

static ALWAYS_INLINE void forget_object(struct heap *heap, const struct heap_object *object)
{
	heap_sum_remove(&heap->totals.objects[object->place], 1, object->bytes);
	if (object->place == HEAP_IN_SLAB)
		slabs_forget_object(heap, object);
}

static bool is_other_node(const struct heap *heap, const struct heap_change *change)
{
	return change->kind == HEAP_FREE && heap->sidecar &&
	       trace_has_nodes(&heap->sidecar->info) &&
	       trace_nodes_differ(&heap->sidecar->info, change->ptr, change->vcpu);
}

/* The object is still among the lives afterwards. */
static ALWAYS_INLINE int end_life(struct heap *heap, struct heap_change *change,
				  const struct heap_object *object, bool is_block)
{
	int ret;

	if (is_block)
		change->slab_of = forget_block(heap, change->ptr, object);
	else
		forget_object(heap, object);
	change->cross_node = is_other_node(heap, change);
	ret = report(heap, change, object);
	change->is_first = false;
	return ret;
}

static int remove_block(struct heap *heap, struct heap_change *change,
			const struct heap_object *block)
{
	int ret = end_life(heap, change, block, true);

	if (heap_moves(heap, change->record->call_site))
		sum_add(&heap->moved.bytes, block->bytes);
	lives_remove(&heap->blocks, block);
	return ret;
}

static int place_block(struct heap *heap, uint64_t ptr, const struct heap_object *block)
{
	struct heap_origin *origin = &heap->origins.all[block->origin];

	if (origin->role == HEAP_SLAB && slabs_add_block(heap, ptr, block))
		return -ENOMEM;
	origin->blocks++;
	if (origin->is_target)
		sum_add(&heap->moved.target_bytes, block->bytes);
	sum_add(&origin->live_bytes, block->bytes);
	heap_sum_add(&heap->totals.pages[origin->role], 1, block->bytes);
	return 0;
}

static int place_object(struct heap *heap, uint64_t ptr, struct heap_object *object)
{
	int place = slabs_place_object(heap, ptr, object);

	if (place < 0)
		return place;
	object->place = (uint8_t)place;
	heap_sum_add(&heap->totals.objects[place], 1, object->bytes);
	return 0;
}

static ALWAYS_INLINE int begin_life(struct heap *heap, struct heap_change *change,
				    struct heap_object *object, bool is_block, bool selected)
{
	const struct kmem_record *record = change->record;
	int64_t number = origins_get(&heap->origins, heap->sidecar, record, change->call_site);

	if (number < 0)
		return -ENOMEM;
	/* One by one: the compiler would make the whole on the stack first, and wait for that. */
	object->bytes = record->bytes_alloc;
	object->requested = record->bytes_req;
	object->born_ns = record->timestamp;
	object->origin = (uint32_t)number;
	object->node = record->node;
	object->vcpu = (uint16_t)change->vcpu;
	object->task = heap->task;
	object->cache = record->cache;
	object->place = 0;
	object->role = heap->origins.all[number].role;
	object->turned = HEAP_PLAIN;
	object->has_voted = false;
	object->selected = selected;
	if (is_block ? place_block(heap, record->ptr, object)
		     : place_object(heap, record->ptr, object))
		return -ENOMEM;
	change->kind = HEAP_ALLOC;
	return report(heap, change, object);
}

static ALWAYS_INLINE int add_alloc(struct heap *heap, struct heap_change *change, bool is_block,
				   bool selected)
{
	bool is_new;
	struct heap_object *object =
		lives_insert(is_block ? &heap->blocks : &heap->objects, change->ptr, &is_new);

	if (!object)
		return -ENOMEM;
	change->kind = HEAP_MISSED_FREE;
	if (!is_new && end_life(heap, change, object, is_block))
		return -ENOMEM;
	return begin_life(heap, change, object, is_block, selected);
}

/* --- pages, which may be freed in pieces ----------------------------------------------------- */

/* The live block that a page lies in, but does not begin. */
static struct heap_object *containing_block(struct heap *heap, uint64_t ptr, uint64_t *head)
{
	for (uint64_t size = 2 * HEAP_PAGE_SIZE; size <= MAX_BLOCK; size *= 2) {
		struct heap_object *block;

		if (!(ptr & size / 2))
			continue; /* such a block begins where a smaller one would */
		*head = ptr & ~(size - 1);
		block = lives_find(&heap->blocks, *head);
		if (block && ptr - *head < block->bytes)
			return block;
	}
	return NULL;
}

static bool can_split(const struct heap_object *block)
{
	return block->bytes > HEAP_PAGE_SIZE && block->bytes <= MAX_BLOCK &&
	       block->bytes % HEAP_PAGE_SIZE == 0;
}

/* From now on, each page of a block is a block. */
static int split(struct heap *heap, struct heap_change *change, uint64_t head,
		 struct heap_object *block)
{
	const struct heap_object whole = *block;
	const enum heap_role role = origins_role(&heap->origins, &whole);
	uint32_t pieces = (uint32_t)(whole.bytes / HEAP_PAGE_SIZE);
	struct heap_change splitting = *change;

	splitting.kind = HEAP_SPLIT;
	splitting.ptr = head;
	splitting.pieces = pieces;
	if (report(heap, &splitting, &whole))
		return -ENOMEM;
	if (role == HEAP_SLAB)
		slabs_remove_block(heap, head, &whole);
	heap_sum_add(&heap->totals.pages[role], pieces - 1, 0);
	for (uint32_t i = 0; i < pieces; i++) {
		uint64_t ptr = head + (uint64_t)i * HEAP_PAGE_SIZE;
		struct heap_object *piece = lives_insert(&heap->blocks, ptr, NULL);

		if (!piece)
			return -ENOMEM;
		*piece = whole;
		piece->bytes = piece->requested = HEAP_PAGE_SIZE;
		if (role == HEAP_SLAB && slabs_add_block(heap, ptr, piece))
			return -ENOMEM;
	}
	return 0;
}

/* The block that a free begins at, split off from a larger one if need be; NULL: unknown. */
static struct heap_object *block_at(struct heap *heap, struct heap_change *change, int *ret)
{
	struct heap_object *block = lives_find(&heap->blocks, change->ptr);
	uint64_t freed = change->record->bytes_alloc, head = change->ptr;

	if (!block)
		block = containing_block(heap, change->ptr, &head);
	else if (!freed || freed >= block->bytes)
		return block;
	if (!block || !can_split(block) || change->ptr % HEAP_PAGE_SIZE)
		return head == change->ptr ? block : NULL;
	*ret = split(heap, change, head, block);
	return *ret ? NULL : lives_find(&heap->blocks, change->ptr);
}

/* All blocks in these pages; some may have been freed before. */
static int free_blocks(struct heap *heap, struct heap_change *change, uint64_t bytes)
{
	const uint64_t end = change->ptr + bytes;
	int ret = 0;

	while (!ret && end - change->ptr <= bytes && change->ptr != end) {
		struct heap_object *block = lives_find(&heap->blocks, change->ptr);
		uint64_t step = HEAP_PAGE_SIZE;

		if (block && block->bytes > end - change->ptr)
			break;
		if (block) {
			step = block->bytes > step ? block->bytes : step;
			ret = remove_block(heap, change, block);
		}
		change->ptr += step;
	}
	return ret;
}

static int free_pages(struct heap *heap, struct heap_change *change)
{
	int ret = 0;
	struct heap_object *block = block_at(heap, change, &ret);
	uint64_t bytes = change->record->bytes_alloc, first;

	if (ret)
		return ret;
	if (!block) {
		change->kind = HEAP_UNKNOWN_FREE;
		return report(heap, change, NULL);
	}
	first = block->bytes;
	ret = remove_block(heap, change, block);
	if (ret || bytes <= first || bytes > MAX_BLOCK)
		return ret;
	change->ptr += first;
	return free_blocks(heap, change, bytes - first);
}

static int free_object(struct heap *heap, struct heap_change *change)
{
	uint32_t *link = lives_link(&heap->objects, change->ptr);
	int ret;

	if (!*link) {
		change->kind = HEAP_UNKNOWN_FREE;
		return report(heap, change, NULL);
	}
	ret = end_life(heap, change, &heap->objects.all[*link].object, false);
	lives_unlink(&heap->objects, link);
	return ret;
}

void heap_prefetch(const struct heap *heap, const struct kmem_record *record)
{
	if (!record)
		return;
	if (record->type_id == KMEM_TYPE_PAGES) {
		lives_prefetch(&heap->blocks, record->ptr);
		return;
	}
	lives_prefetch(&heap->objects, record->ptr);
	if (record->event_id == KMEM_EVENT_ALLOC)
		slabs_prefetch(&heap->slabs, record->ptr);
}

void heap_prefetch_place(const struct heap *heap, const struct kmem_record *record)
{
	lives_prefetch_head(record->type_id == KMEM_TYPE_PAGES ? &heap->blocks : &heap->objects,
			    record->ptr);
}

int heap_set_task(struct heap *heap, const struct event *event)
{
	int number = heap_tasks_number(&heap->tasks, event);

	if (number < 0)
		return number;
	heap->task = (uint16_t)number;
	return 0;
}

struct text heap_task_text(const struct heap *heap, uint16_t task)
{
	return heap_tasks_text(&heap->tasks, task);
}

static ALWAYS_INLINE int apply(struct heap *heap, const struct kmem_record *record,
			       uint64_t call_site, unsigned int vcpu, bool selected)
{
	struct heap_change change = {.record = record,
				     .vcpu = vcpu,
				     .is_first = true,
				     .ptr = record->ptr,
				     .call_site = call_site,
				     .heap = heap};

	if (!kmem_record_is_legal(record)) {
		change.kind = HEAP_INVALID;
		return report(heap, &change, NULL);
	}
	if (record->event_id == KMEM_EVENT_ALLOC)
		return record->type_id == KMEM_TYPE_PAGES
			       ? add_alloc(heap, &change, true, selected)
			       : add_alloc(heap, &change, false, selected);
	change.kind = HEAP_FREE;
	return record->type_id == KMEM_TYPE_PAGES ? free_pages(heap, &change)
						  : free_object(heap, &change);
}

int heap_apply(struct heap *heap, const struct kmem_record *record, unsigned int vcpu,
	       bool selected)
{
	return apply(heap, record, record->call_site, vcpu, selected);
}

int heap_charge(struct heap *heap, const struct event *event, const struct kmem_record *record,
		uint64_t *call_site)
{
	*call_site = record->call_site;
	return record->event_id == KMEM_EVENT_ALLOC
		       ? callers_find(&heap->callers, heap->sidecar, event, record, call_site)
		       : 0;
}

int heap_apply_charged(struct heap *heap, const struct event *event,
		       const struct kmem_record *record, uint64_t call_site, bool selected)
{
	return apply(heap, record, call_site, event->vcpu, selected);
}

int heap_apply_event(struct heap *heap, const struct event *event, const struct kmem_record *record,
		     bool selected)
{
	uint64_t call_site;

	if (heap_charge(heap, event, record, &call_site))
		return -ENOMEM;
	return heap_apply_charged(heap, event, record, call_site, selected);
}

/* --- what is known --------------------------------------------------------------------------- */

const struct heap_totals *heap_totals(const struct heap *heap)
{
	return &heap->totals;
}

uint64_t heap_live_bytes(const struct heap *heap)
{
	uint64_t sum = heap->totals.objects[HEAP_OUTSIDE].bytes;

	for (int role = 0; role < HEAP_ROLES; role++)
		sum_add(&sum, heap->totals.pages[role].bytes);
	return sum;
}

enum { SIZE_CLASSES = 65 }; /* 0, 1, 2 to 3, 4 to 7 and so on */

static void count_size(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct heap_sum *classes = arg;

	(void)ptr;
	heap_sum_add(&classes[object->bytes ? 64 - __builtin_clzll(object->bytes) : 0], 1,
		     object->bytes);
}

uint64_t heap_most_bytes(const struct heap *heap, uint64_t n)
{
	struct heap_sum classes[SIZE_CLASSES] = {{0}};
	uint64_t sum = 0;

	if (n)
		heap_each(heap, count_size, classes);
	for (int i = SIZE_CLASSES; n && i-- > 0;) {
		const struct heap_sum *class = &classes[i];
		uint64_t most = i ? UINT64_MAX >> (64 - i) : 0, part;

		if (n >= class->objects) {
			sum_add(&sum, class->bytes);
			n -= class->objects;
			continue;
		}
		if (__builtin_mul_overflow(n, most, &part) || part > class->bytes)
			part = class->bytes;
		sum_add(&sum, part);
		n = 0;
	}
	return sum;
}

bool heap_is_backing(const struct heap_origin *origin)
{
	return origin->type == KMEM_TYPE_PAGES && origin->role != HEAP_PLAIN;
}

size_t heap_nr_origins(const struct heap *heap)
{
	return heap->origins.count;
}

const struct heap_origin *heap_origin(const struct heap *heap, uint32_t index)
{
	return &heap->origins.all[index];
}

const struct heap_origin *heap_change_origin(const struct heap_change *change)
{
	return heap_origin(change->heap, change->object->origin);
}

const struct heap_cache *heap_cache(const struct heap *heap, uint16_t cache)
{
	const struct slabs *slabs = &heap->slabs;

	return cache < slabs->nr_caches && slabs->caches[cache].is_used ? &slabs->caches[cache]
									: NULL;
}

const struct heap_cache *heap_next_cache(const struct heap *heap, size_t *pos, uint16_t *cache)
{
	const struct slabs *slabs = &heap->slabs;

	while (*pos < slabs->nr_caches && !slabs->caches[*pos].is_used)
		++*pos;
	if (*pos >= slabs->nr_caches)
		return NULL;
	*cache = (uint16_t)*pos;
	return &slabs->caches[(*pos)++];
}

void heap_each(const struct heap *heap, heap_object_fn *fn, void *arg)
{
	const struct lives *const lives[] = {&heap->blocks, &heap->objects};

	for (int i = 0; i < 2; i++) {
		const struct heap_object *object;
		uint64_t ptr;
		size_t pos = 0;

		while ((object = lives_next(lives[i], &pos, &ptr)))
			fn(arg, ptr, object);
	}
}

size_t heap_memory(const struct heap *heap)
{
	return sizeof(*heap) + lives_memory(&heap->objects) + lives_memory(&heap->blocks) +
	       u64_map_memory(&heap->slabs.frames) +
	       heap->slabs.nr_caches * sizeof(*heap->slabs.caches) +
	       u64_map_memory(&heap->origins.by_site) +
	       heap->origins.room * sizeof(*heap->origins.all) +
	       u64_map_memory(&heap->callers.roles);
}
