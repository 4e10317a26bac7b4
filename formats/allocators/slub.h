/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_SLUB_H
#define SONDE_FORMATS_ALLOCATORS_SLUB_H

#include "formats/allocators/slabs.h"

/* Inside of the model of SLUB: sizes (slub-order.c), slabs and lists (slub.c), sheaves
 * (slub-sheaf.c). */
struct slub_limits {
	uint64_t
		cpu_partial; /* of a CPU's partial list: slabs, or free objects (partial_objects) */
	uint64_t min_partial; /* partial slabs of a node from which on empty ones are given back */
	uint64_t sheaf;       /* objects; 0: no sheaves */
};

/* A CPU's slab, and its list of partial ones. */
struct slub_cpu {
	struct slab *slab; /* or NULL */
	struct slab_list partial;
	uint64_t free_objects; /* in slabs when they were put on the list */
};

struct slub {
	struct slub_limits limits;
	struct slab_list full;        /* slabs without a free object; no list in the kernel */
	struct slab_list *nodes;      /* partial slabs, by node */
	struct slub_cpu **cpus;       /* NULL: not used yet */
	struct slub_sheaves *sheaves; /* or NULL */
	bool has_slabs;               /* CPUs have slabs of their own */
};

void slub_set_order(struct model_cache *cache);
/* After slub_set_order(). */
struct slub_limits slub_limits_of(const struct model_cache *cache);

/* An object of a node's partial slabs, or of a new one. NULL: no memory. */
struct slab *slub_take_object(struct model_cache *cache, unsigned int node);
/* Many of them, for a sheaf; the slabs they lie in. Returns how many there were memory for. */
uint64_t slub_take_objects(struct model_cache *cache, unsigned int node, struct slab **out,
			   uint64_t wanted);
/* Objects go back to their slab at once, past the CPUs' lists. */
void slub_give_objects(struct model_cache *cache, struct slab *slab, uint32_t n);
/* An array of objects, by their slabs, in the order of kfree_bulk(); it is sorted. */
void slub_free_slabs(struct slab **slabs, size_t n, unsigned int cpu);

/* 0 or -ENOMEM. */
int slub_sheaves_create(struct model_cache *cache);
/* NULL-safe. */
void slub_sheaves_destroy(struct slub_sheaves *sheaves, unsigned int cpus);
struct slab *slub_sheaves_alloc(struct model_cache *cache, const struct placement *where);
void slub_sheaves_free(struct model_cache *cache, unsigned int cpu, struct slab *slab);
/* One of an array, if the sheaves have room for it: for an array no sheaf is made. */
bool slub_sheaves_take_back(struct model_cache *cache, unsigned int cpu, struct slab *slab);
/* By kfree_rcu(). */
void slub_sheaves_free_rcu(struct model_cache *cache, unsigned int cpu, struct slab *slab);
/* Those of struct allocator_ops. */
uint64_t slub_sheaves_free_later(struct model_cache *cache, unsigned int cpu, uintptr_t token);
void slub_sheaves_free_waiting(struct model_cache *cache, unsigned int cpu,
			       const struct waiting *what);
void slub_sheaves_prefill(struct model_cache *cache, unsigned int cpu, uint64_t task,
			  uint64_t objects);
void slub_sheaves_end_prefill(struct model_cache *cache, unsigned int cpu, uint64_t task);
/* All of their objects go back to the slabs, but for those of kfree_rcu(). */
void slub_sheaves_flush(struct model_cache *cache);

#endif
