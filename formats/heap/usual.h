/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_USUAL_H
#define SONDE_FORMATS_HEAP_USUAL_H

#include "formats/heap/internal.h"

/*
 * What most records of kmem do to a heap: inline, for a loop over their briefs, and without telling
 * the heap's function, as the caller knows what changes. Before anything changes, the caller asks
 * whether a record is such a one; others are heap_apply()'s. These are objects in slabs that others
 * were in lately, and blocks of pages that are neither slabs nor objects, as a whole. Of what lives
 * on each node, a heap with several nodes has more to say: see heap_has_nodes().
 */

/* --- origins --------------------------------------------------------------------------------- */

/* All but the node, which is not part of an origin. Never 0. */
static inline uint64_t origins_key(const struct kmem_brief *brief)
{
	return (uint64_t)(uint32_t)brief->call_site << 32 | (uint64_t)brief->cache << 16 |
	       (brief->class + 1u);
}

static inline struct brief_origin *origins_of_briefs(struct origins *origins, uint64_t key)
{
	return &origins->of_briefs[key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECENT_ORIGIN_BITS)];
}

/* The origin of an allocation. NULL: no memory. */
static inline const struct brief_origin *heap_brief_origin(struct heap *heap,
							   const struct kmem_brief *brief)
{
	const uint64_t key = origins_key(brief);
	struct brief_origin *found = origins_of_briefs(&heap->origins, key);

	return found->key == key || !heap_find_brief_origin(heap, brief, found) ? found : NULL;
}

/* --- allocations ----------------------------------------------------------------------------- */

static inline struct lives *heap_lives(struct heap *heap, bool is_block)
{
	return is_block ? &heap->blocks : &heap->objects;
}

static inline bool slabs_have_recent(const struct slabs *slabs, const struct kmem_brief *brief)
{
	const uint64_t frame = brief->ptr >> FRAME_SHIFT;

	return slabs->recent[frame % RECENT_FRAMES] == frame + 1 &&
	       brief->cache < slabs->nr_caches && brief->bytes_alloc < HEAP_PAGE_SIZE;
}

static inline bool is_usual_origin(const struct heap_origin *origin)
{
	return origin->role == HEAP_PLAIN && !origin->is_mixed && !origin->is_target;
}

static inline __attribute__((always_inline)) bool
heap_alloc_is_usual(struct heap *heap, const struct kmem_brief *brief, uint32_t origin,
		    bool is_block)
{
	const struct lives *lives = heap_lives(heap, is_block);

	if (!lives->free && lives->used == lives->room)
		return false;
	return is_block ? is_usual_origin(&heap->origins.all[origin])
			: slabs_have_recent(&heap->slabs, brief);
}

/* Whether it is usual that an object goes. */
static inline __attribute__((always_inline)) bool
heap_end_is_usual(const struct heap *heap, const struct heap_object *object, bool is_block)
{
	return is_block ? is_usual_origin(&heap->origins.all[object->origin])
			: object->place == HEAP_IN_SLAB;
}

/* It goes, but for its entry. */
static inline __attribute__((always_inline)) void
heap_forget_usual(struct heap *heap, const struct heap_object *object, bool is_block)
{
	if (is_block) {
		sum_subtract(&heap->origins.all[object->origin].live_bytes, object->bytes);
		heap_sum_remove(&heap->totals.pages[HEAP_PLAIN], 1, object->bytes);
	} else {
		slabs_forget_object(heap, object);
		heap_sum_remove(&heap->totals.objects[HEAP_IN_SLAB], 1, object->bytes);
	}
}

static inline struct heap_object *lives_add_usual(struct lives *lives, uint64_t ptr)
{
	uint32_t *const head = lives_head(lives, ptr);
	uint32_t i = lives->free;
	struct life *life;

	if (i) {
		lives->free = lives->all[i].next;
		u64_map_load_soon(&lives->all[lives->free]);
	} else {
		i = lives->used++;
	}
	life = &lives->all[i];
	life->ptr = ptr;
	life->next = *head;
	*head = i;
	return &life->object;
}

static inline void heap_place_usual(struct heap *heap, struct heap_object *object, bool is_block)
{
	if (is_block) {
		struct heap_origin *origin = &heap->origins.all[object->origin];

		origin->blocks++;
		sum_add(&origin->live_bytes, object->bytes);
		heap_sum_add(&heap->totals.pages[HEAP_PLAIN], 1, object->bytes);
	} else {
		slabs_count_object(&heap->slabs, object);
		heap_sum_add(&heap->totals.objects[HEAP_IN_SLAB], 1, object->bytes);
	}
}

/* `former`: the object at this address, which is forgotten; or NULL. */
static inline __attribute__((always_inline)) const struct heap_object *
heap_alloc_usual(struct heap *heap, const struct kmem_brief *brief, unsigned int vcpu,
		 uint32_t origin, struct heap_object *former, bool is_block)
{
	struct heap_object *object =
		former ? former : lives_add_usual(heap_lives(heap, is_block), brief->ptr);

	object->bytes = brief->bytes_alloc;
	object->requested = brief->bytes_req;
	object->born_ns = brief->ns;
	object->origin = origin;
	object->node = brief->node;
	object->vcpu = (uint16_t)vcpu;
	object->task = heap->task;
	object->cache = brief->cache;
	object->place = is_block ? HEAP_OUTSIDE : HEAP_IN_SLAB;
	object->role = HEAP_PLAIN;
	object->turned = HEAP_PLAIN;
	object->has_voted = false;
	object->selected = true;
	heap_place_usual(heap, object, is_block);
	return object;
}

/* --- frees ----------------------------------------------------------------------------------- */

/* What leads to an object that is freed. */
struct heap_usual_free {
	struct heap_object *object; /* NULL: the free is not usual */
	uint32_t *link;
	uint32_t number;
};

static inline __attribute__((always_inline)) struct heap_usual_free
heap_usual_free(struct heap *heap, const struct kmem_brief *brief, bool is_block)
{
	struct lives *lives = heap_lives(heap, is_block);
	struct heap_usual_free out = {.link = lives_head(lives, brief->ptr)};
	struct life *life;

	if (is_block && heap_moves(heap, (uint64_t)(int64_t)brief->call_site))
		return out;
	for (;; out.link = &life->next) {
		out.number = *out.link;
		if (!out.number)
			return out;
		life = &lives->all[out.number];
		if (life->ptr == brief->ptr)
			break;
	}
	if (heap_end_is_usual(heap, &life->object, is_block) &&
	    (!is_block || life->object.bytes == brief->bytes_alloc))
		out.object = &life->object;
	return out;
}

static inline __attribute__((always_inline)) void
heap_free_usual(struct heap *heap, const struct heap_usual_free *free, bool is_block)
{
	heap_forget_usual(heap, free->object, is_block);
	lives_unlink_life(heap_lives(heap, is_block), free->link, free->number);
}

/* --- soon ------------------------------------------------------------------------------------ */

/* Where records of each class have their objects. */
static inline void heap_lives_by_class(const struct heap *heap,
				       const struct lives *out[KMEM_NR_CLASSES])
{
	for (enum kmem_class class = 0; class < KMEM_NR_CLASSES; class ++)
		out[class] =
			kmem_ids[class].type_id == KMEM_TYPE_PAGES ? &heap->blocks : &heap->objects;
}

/* heap_prefetch_place() and heap_prefetch(), without a look at how large tables are. */
static inline void heap_load_place_soon(const struct lives *const *by_class,
					const struct kmem_brief *brief)
{
	u64_map_load_soon(lives_head(by_class[brief->class], brief->ptr));
}

static inline void heap_load_soon(const struct lives *const *by_class,
				  const struct kmem_brief *brief)
{
	const struct lives *lives = by_class[brief->class];

	u64_map_load_soon(&lives->all[*lives_head(lives, brief->ptr)]);
}

/* Whether the trace says what nodes there are. */
static inline bool heap_has_nodes(const struct heap *heap)
{
	return heap->sidecar && trace_has_nodes(&heap->sidecar->info);
}

#endif
