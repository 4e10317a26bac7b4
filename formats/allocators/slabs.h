/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_SLABS_H
#define SONDE_FORMATS_ALLOCATORS_SLABS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "formats/allocators/allocator.h"

/* Slabs and lists of them, for SLUB and SLAB. A slab is on one list or on none. */
struct slab {
	struct slab *prev, *next;
	struct slab_list *list;
	struct model_cache *cache;
	uint32_t inuse; /* objects that are not free */
	uint32_t node;
	bool frozen; /* SLUB: a CPU's, or on a CPU's partial list */
	uint32_t counted; /* SLUB: free objects when it came to that list */
};

struct slab_list {
	struct slab *first, *last;
	uint64_t count;
};

enum slab_end { SLAB_HEAD, SLAB_TAIL };

static inline void slab_list_add(struct slab_list *list, struct slab *slab, enum slab_end end)
{
	slab->list = list;
	slab->prev = end == SLAB_HEAD ? NULL : list->last;
	slab->next = end == SLAB_HEAD ? list->first : NULL;
	*(slab->prev ? &slab->prev->next : &list->first) = slab;
	*(slab->next ? &slab->next->prev : &list->last) = slab;
	list->count++;
}

static inline void slab_list_remove(struct slab *slab)
{
	struct slab_list *list = slab->list;

	*(slab->prev ? &slab->prev->next : &list->first) = slab->next;
	*(slab->next ? &slab->next->prev : &list->last) = slab->prev;
	slab->list = NULL;
	list->count--;
}

/* Frees the slabs of a list; the cache goes, too, so nothing is counted. */
static inline void slab_list_destroy(struct slab_list *list)
{
	struct slab *next;

	for (struct slab *slab = list->first; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
}

/* A new slab on no list, with its pages. NULL: no memory. */
static inline struct slab *slab_create(struct model_cache *cache, uint32_t node)
{
	struct slab *slab = calloc(1, sizeof(*slab));

	if (slab) {
		slab->node = node;
		slab->cache = cache;
		model_take_pages(cache, UINT64_C(1) << cache->order);
	}
	return slab;
}

/* Gives its pages back, too. */
static inline void slab_destroy(struct model_cache *cache, struct slab *slab)
{
	model_give_pages(cache, UINT64_C(1) << cache->order);
	free(slab);
}

/* A CPU's or node's part of a cache, zeroed when it is first asked for. */
static inline void *slab_part(void **parts, unsigned int i, size_t size)
{
	if (!parts[i])
		parts[i] = calloc(1, size);
	return parts[i];
}

#endif
