/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_ALLOCATOR_H
#define SONDE_FORMATS_ALLOCATORS_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/allocators/model.h"

/*
 * How an allocator places objects. It knows objects by their sizes only, and answers with a token,
 * which it gets back when the object is freed.
 *
 * To add one: a file NAME.c that defines `const struct allocator_ops NAME_allocator`, and a row in
 * models.c.
 */

/* A cache of the model, and what is counted of it. */
struct model_cache {
	const struct model *model;
	char name[64];
	uint32_t index; /* from 0 on, unique in the simulation */
	unsigned int nodes, cpus;
	bool is_early;    /* its first object is from before the guest started its other CPUs */
	bool knows_early; /* the trace has that time */
	uint64_t slot; /* bytes that an object takes */
	struct cache_params params;
	unsigned int order;    /* of slabs; set by the allocator's cache_init() */
	uint64_t per_slab;     /* objects; likewise */
	uint64_t pages, peak;  /* that it holds, and the most it held */
	uint64_t objects;      /* live ones */
	uint64_t requested;    /* bytes of these */
	uint64_t taken;        /* bytes of these with what rounding adds */
	uint64_t *total_pages; /* of the simulation */
	void *own;             /* the allocator's */
};

/* CPUs are divided among the nodes in their order. */
static inline unsigned int model_node_of(const struct model_cache *cache, unsigned int cpu)
{
	return (unsigned int)((uint64_t)cpu * cache->nodes / cache->cpus);
}

/* Pages come and go. */
static inline void model_take_pages(struct model_cache *cache, uint64_t pages)
{
	cache->pages += pages;
	*cache->total_pages += pages;
	if (cache->pages > cache->peak)
		cache->peak = cache->pages;
}

static inline void model_give_pages(struct model_cache *cache, uint64_t pages)
{
	cache->pages -= pages;
	*cache->total_pages -= pages;
}

/* The smallest order of pages that hold so many bytes. */
static inline unsigned int order_of(uint64_t bytes)
{
	unsigned int order = 0;

	while (order < 52 && ((uint64_t)MODEL_PAGE_SIZE << order) < bytes)
		order++;
	return order;
}

/* What an object takes. */
struct object_shape {
	uint64_t bytes;       /* with the head */
	uint32_t align, head; /* in pools: what follows the head is aligned; bytes */
};

/* Where an object is wanted, and how. */
struct placement {
	unsigned int cpu, node;
	bool in_array;       /* of kmem_cache_alloc_bulk() */
	bool has_no_sheaf;   /* the kernel has not made it yet */
	bool makes_no_sheaf; /* it may not call kmalloc() for one */
	/* Out of a sheaf that the caller has filled beforehand: it takes so many objects, this one
	 * and the next; 0: not out of one. */
	unsigned int prefilled;
};

enum { ARRAY_MOST = 1024 }; /* objects that are freed at once */

/* How an array of objects is freed. */
enum array_free {
	ARRAY_OF_CACHE, /* kmem_cache_free_bulk() of a cache, or a loop */
	ARRAY_OF_ANY,   /* kfree_bulk() */
	ARRAY_OF_RCU,   /* what kfree_rcu() has collected, after the grace period */
};

/* What was asked for. */
struct object_request {
	uint64_t bytes;
	bool is_kmalloc; /* else of a cache */
	struct cache_params params;
};

/*
 * What is freed after a grace period: all that waits under a number. If objects are freed with it
 * for which free_later() was not called, they came before, and it is only the first ones.
 */
struct waiting {
	uint64_t number;
	size_t objects;          /* the first ones that have the number */
	const uintptr_t *before; /* others, in their order */
	size_t nr_before;
};

#define MODEL_REAP_NS INT64_C(2000000000)

struct allocator_ops {
	const char *name;
	uint64_t slot_least; /* bytes that each object of a cache takes at least */
	/*
	 * For allocators whose objects share pools: the name of the pool, the object's shape, and
	 * the bytes that the pool's objects have at most. NULL: the object gets pages. Others have
	 * no such function: objects lie in caches.
	 */
	const char *(*pool)(const struct object_request *request, struct object_shape *shape,
			    uint64_t *most);
	/* Sets order, per_slab and own. Returns 0 or -ENOMEM. */
	int (*cache_init)(struct model_cache *cache);
	void (*cache_deinit)(struct model_cache *cache);
	/* Returns 0 or -ENOMEM. */
	int (*alloc)(struct model_cache *cache, const struct placement *where,
		     const struct object_shape *shape, uintptr_t *token);
	void (*free)(struct model_cache *cache, unsigned int cpu, const struct object_shape *shape,
		     uintptr_t token);
	/* Frees an array of up to ARRAY_MOST objects of any caches. NULL: they are freed one by
	 * one, in their order. */
	void (*free_array)(const uintptr_t *tokens, size_t n, unsigned int cpu,
			   enum array_free how);
	/* As kmem_cache_shrink(); or NULL. */
	void (*shrink)(struct model_cache *cache);
	/* kfree_rcu() is called for an object, which is freed after the grace period. Returns the
	 * number of what it waits in, and all of that is freed at once, or 0: free() follows. Or
	 * NULL; likewise: */
	uint64_t (*free_later)(struct model_cache *cache, unsigned int cpu, uintptr_t token);
	void (*free_waiting)(struct model_cache *cache, unsigned int cpu,
			     const struct waiting *what);
	/* A task has a sheaf filled with at least so many objects, and gives back what is left. */
	void (*prefill)(struct model_cache *cache, unsigned int cpu, uint64_t task,
			uint64_t objects);
	void (*end_prefill)(struct model_cache *cache, unsigned int cpu, uint64_t task);
	/* What a timer of the CPU does about every MODEL_REAP_NS, at `ns` of the trace clock. If it
	 * keeps slabs, those that it would give back go with drain() only. Or NULL; likewise: */
	void (*reap)(struct model_cache *cache, unsigned int cpu, int64_t ns, bool keeps_slabs);
	/* The guest's own timer gave a slab of the cache back. */
	void (*drain)(struct model_cache *cache, unsigned int cpu, int64_t ns);
	/* It looks at what the CPU has of the cache, or then at what the node has. Or NULL. */
	void (*look)(struct model_cache *cache, unsigned int cpu, bool at_node);
};

#endif
