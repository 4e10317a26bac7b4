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
	u64_map_init(&heap->objects, sizeof(struct heap_object));
	u64_map_init(&heap->blocks, sizeof(struct heap_object));
	slabs_init(&heap->slabs);
	origins_init(&heap->origins);
	heap_tasks_init(&heap->tasks);
	return heap;
}

void heap_destroy(struct heap *heap)
{
	if (!heap)
		return;
	u64_map_deinit(&heap->objects);
	u64_map_deinit(&heap->blocks);
	slabs_deinit(&heap->slabs);
	origins_deinit(&heap->origins);
	heap_tasks_deinit(&heap->tasks);
	free(heap);
}

/* --- lives ----------------------------------------------------------------------------------- */

static struct u64_map *map_of(struct heap *heap, uint8_t type)
{
	return type == KMEM_TYPE_PAGES ? &heap->blocks : &heap->objects;
}

static struct heap_sum *total_of(struct heap *heap, const struct heap_object *object)
{
	const struct heap_origin *origin = &heap->origins.all[object->origin];

	return origin->type == KMEM_TYPE_PAGES ? &heap->totals.pages[origin->role]
					       : &heap->totals.objects[object->place];
}

static int report(struct heap *heap, struct heap_change *change, const struct heap_object *object)
{
	change->object = object;
	change->origin = object ? &heap->origins.all[object->origin] : NULL;
	return heap->fn(heap->arg, change);
}

/* The object is still in its map afterwards. */
static int end_life(struct heap *heap, struct heap_change *change, const struct heap_object *object)
{
	struct heap_origin *origin = &heap->origins.all[object->origin];
	int ret;

	heap_sum_remove(total_of(heap, object), 1, object->bytes);
	sum_subtract(&origin->live_bytes, object->bytes);
	if (origin->type == KMEM_TYPE_PAGES && origin->role == HEAP_SLAB)
		slabs_remove_block(heap, change->ptr, object);
	else if (origin->type != KMEM_TYPE_PAGES && object->place == HEAP_IN_SLAB)
		slabs_forget_object(heap, object);
	change->cross_node = change->kind == HEAP_FREE && heap->sidecar &&
			     trace_has_nodes(&heap->sidecar->info) &&
			     trace_nodes_differ(&heap->sidecar->info, change->ptr, change->vcpu);
	ret = report(heap, change, object);
	change->is_first = false;
	return ret;
}

static int remove_object(struct heap *heap, struct heap_change *change,
			 const struct heap_object *object)
{
	struct u64_map *map = map_of(heap, heap->origins.all[object->origin].type);
	int ret = end_life(heap, change, object);

	u64_map_remove_value(map, object);
	return ret;
}

static int place(struct heap *heap, uint64_t ptr, struct heap_object *object)
{
	const struct heap_origin *origin = &heap->origins.all[object->origin];
	int ret;

	if (origin->type == KMEM_TYPE_PAGES)
		return origin->role == HEAP_SLAB ? slabs_add_block(heap, ptr, object) : 0;
	ret = slabs_place_object(heap, ptr, object);
	if (ret < 0)
		return ret;
	object->place = (uint8_t)ret;
	return 0;
}

static int begin_life(struct heap *heap, struct heap_change *change, struct heap_object *object,
		      bool selected)
{
	const struct kmem_record *record = change->record;
	int64_t number = origins_get(&heap->origins, heap->sidecar, record);
	struct heap_origin *origin;

	if (number < 0)
		return -ENOMEM;
	origin = &heap->origins.all[number];
	/* One by one: the compiler would make the whole on the stack first, and wait for that. */
	object->bytes = record->bytes_alloc;
	object->requested = record->bytes_req;
	object->born_ns = record->timestamp;
	object->origin = (uint32_t)number;
	object->node = record->node;
	object->vcpu = (uint16_t)change->vcpu;
	object->task = heap->task;
	object->place = 0;
	object->role = origin->role;
	object->has_voted = false;
	object->selected = selected;
	if (place(heap, record->ptr, object))
		return -ENOMEM;
	origin->blocks++;
	sum_add(&origin->live_bytes, object->bytes);
	heap_sum_add(total_of(heap, object), 1, object->bytes);
	change->kind = HEAP_ALLOC;
	return report(heap, change, object);
}

static int add_alloc(struct heap *heap, struct heap_change *change, bool selected)
{
	bool is_new;
	struct heap_object *object =
		u64_map_insert(map_of(heap, change->record->type_id), change->ptr, &is_new);
	int ret = 0;

	if (!object)
		return -ENOMEM;
	change->kind = HEAP_MISSED_FREE;
	if (!is_new)
		ret = end_life(heap, change, object);
	return ret ? ret : begin_life(heap, change, object, selected);
}

/* --- pages, which may be freed in pieces ----------------------------------------------------- */

/* The live block that a page lies in, but does not begin. */
static struct heap_object *containing_block(struct heap *heap, uint64_t ptr, uint64_t *head)
{
	for (uint64_t size = 2 * HEAP_PAGE_SIZE; size <= MAX_BLOCK; size *= 2) {
		struct heap_object *block;

		*head = ptr & ~(size - 1);
		block = u64_map_find(&heap->blocks, *head);
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
	const bool is_slab = heap->origins.all[whole.origin].role == HEAP_SLAB;
	uint32_t pieces = (uint32_t)(whole.bytes / HEAP_PAGE_SIZE);
	struct heap_change splitting = *change;

	splitting.kind = HEAP_SPLIT;
	splitting.ptr = head;
	splitting.pieces = pieces;
	if (report(heap, &splitting, &whole))
		return -ENOMEM;
	if (is_slab)
		slabs_remove_block(heap, head, &whole);
	heap_sum_add(total_of(heap, &whole), pieces - 1, 0);
	for (uint32_t i = 0; i < pieces; i++) {
		uint64_t ptr = head + (uint64_t)i * HEAP_PAGE_SIZE;
		struct heap_object *piece = u64_map_insert(&heap->blocks, ptr, NULL);

		if (!piece)
			return -ENOMEM;
		*piece = whole;
		piece->bytes = piece->requested = HEAP_PAGE_SIZE;
		if (is_slab && slabs_add_block(heap, ptr, piece))
			return -ENOMEM;
	}
	return 0;
}

/* The block that a free begins at, split off from a larger one if need be; NULL: unknown. */
static struct heap_object *block_at(struct heap *heap, struct heap_change *change, int *ret)
{
	struct heap_object *block = u64_map_find(&heap->blocks, change->ptr);
	uint64_t freed = change->record->bytes_alloc, head = change->ptr;

	if (!block)
		block = containing_block(heap, change->ptr, &head);
	else if (!freed || freed >= block->bytes)
		return block;
	if (!block || !can_split(block) || change->ptr % HEAP_PAGE_SIZE)
		return head == change->ptr ? block : NULL;
	*ret = split(heap, change, head, block);
	return *ret ? NULL : u64_map_find(&heap->blocks, change->ptr);
}

/* All blocks in these pages; some may have been freed before. */
static int free_blocks(struct heap *heap, struct heap_change *change, uint64_t bytes)
{
	const uint64_t end = change->ptr + bytes;
	int ret = 0;

	while (!ret && end - change->ptr <= bytes && change->ptr != end) {
		struct heap_object *block = u64_map_find(&heap->blocks, change->ptr);
		uint64_t step = HEAP_PAGE_SIZE;

		if (block && block->bytes > end - change->ptr)
			break;
		if (block) {
			step = block->bytes > step ? block->bytes : step;
			ret = remove_object(heap, change, block);
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
	ret = remove_object(heap, change, block);
	if (ret || bytes <= first || bytes > MAX_BLOCK)
		return ret;
	change->ptr += first;
	return free_blocks(heap, change, bytes - first);
}

static int add_free(struct heap *heap, struct heap_change *change)
{
	struct heap_object *object;

	change->kind = HEAP_FREE;
	if (change->record->type_id == KMEM_TYPE_PAGES)
		return free_pages(heap, change);
	object = u64_map_find(&heap->objects, change->ptr);
	if (object)
		return remove_object(heap, change, object);
	change->kind = HEAP_UNKNOWN_FREE;
	return report(heap, change, NULL);
}

void heap_prefetch(const struct heap *heap, const struct event *event)
{
	const struct event_class *class = event ? kmem_known_class(event->class) : NULL;
	uint64_t ptr;

	if (!class)
		return;
	memcpy(&ptr, (const uint8_t *)event->bytes + offsetof(struct kmem_record, ptr),
	       sizeof(ptr));
	if (class == &kmem_classes[KMEM_CLASS_PAGE_ALLOC] ||
	    class == &kmem_classes[KMEM_CLASS_PAGE_FREE]) {
		u64_map_prefetch(&heap->blocks, ptr);
		return;
	}
	u64_map_prefetch(&heap->objects, ptr);
	slabs_prefetch(&heap->slabs, ptr);
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

int heap_apply(struct heap *heap, const struct kmem_record *record, unsigned int vcpu,
	       bool selected)
{
	struct heap_change change = {
		.record = record, .vcpu = vcpu, .is_first = true, .ptr = record->ptr};

	if (!kmem_record_is_legal(record)) {
		change.kind = HEAP_INVALID;
		return report(heap, &change, NULL);
	}
	if (record->event_id == KMEM_EVENT_ALLOC)
		return add_alloc(heap, &change, selected);
	return add_free(heap, &change);
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
	const struct u64_map *maps[] = {&heap->blocks, &heap->objects};

	for (int i = 0; i < 2; i++) {
		const struct heap_object *object;
		uint64_t ptr;
		size_t pos = 0;

		while ((object = u64_map_next(maps[i], &pos, &ptr)))
			fn(arg, ptr, object);
	}
}

size_t heap_memory(const struct heap *heap)
{
	return sizeof(*heap) + u64_map_memory(&heap->objects) + u64_map_memory(&heap->blocks) +
	       u64_map_memory(&heap->slabs.frames) +
	       heap->slabs.nr_caches * sizeof(*heap->slabs.caches) +
	       u64_map_memory(&heap->origins.by_site) +
	       heap->origins.room * sizeof(*heap->origins.all);
}
