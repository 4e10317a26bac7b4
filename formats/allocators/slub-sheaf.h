/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_SLUB_SHEAF_H
#define SONDE_FORMATS_ALLOCATORS_SLUB_SHEAF_H

#include "formats/allocators/slub.h"

/* Inside of the model of sheaves: what is done with them (slub-sheaf.c), and what a trace may tell
 * of them (slub-told.c). */
enum { BARN_MOST = 10 }; /* full sheaves that a barn keeps, and likewise empty ones */

struct sheaf {
	struct sheaf *next; /* that waits */
	uint64_t number;    /* of one that kfree_rcu() fills */
	uint64_t count;
	struct slab *objects[];
};

/* Each may be missing. */
struct cpu_sheaves {
	struct sheaf *main, *spare, *rcu;
	struct sheaf *waiting; /* for the end of a grace period, the oldest one first */
};

struct barn {
	struct sheaf *full[BARN_MOST];
	unsigned int count;
	uint64_t nr_empty; /* other sheaves; what is exchanged goes beyond BARN_MOST */
};

/* A sheaf that a task has filled beforehand. */
struct held_sheaf {
	struct held_sheaf *next;
	struct sheaf *sheaf;
	uint64_t task;
	unsigned int cpu;
};

struct slub_sheaves {
	struct barn *barns; /* by node */
	unsigned int nodes;
	struct cpu_sheaves **cpus;
	struct held_sheaf *held; /* the last one first */
	uint64_t last_number;
};

static inline bool sheaf_is_full(const struct slub *slub, const struct sheaf *sheaf)
{
	return sheaf->count == slub->limits.sheaf;
}

static inline struct sheaf *sheaf_take(struct sheaf **from)
{
	struct sheaf *sheaf = *from;

	*from = NULL;
	return sheaf;
}

static inline struct barn *sheaf_barn(const struct model_cache *cache, unsigned int cpu)
{
	const struct slub *slub = cache->own;

	return &slub->sheaves->barns[model_node_of(cache, cpu)];
}

/* A CPU with its first sheaf, or NULL. */
struct cpu_sheaves *sheaves_of_cpu(const struct slub *slub, unsigned int cpu);
void sheaf_fill(struct model_cache *cache, struct sheaf *sheaf, unsigned int node);
/* Its objects go back to the slabs. */
void sheaf_flush(struct sheaf *sheaf, unsigned int cpu);
/* One to fill beforehand: the CPU's second one, or one of the node. NULL: no memory. */
struct sheaf *sheaf_to_prefill(struct model_cache *cache, struct cpu_sheaves *own,
			       unsigned int cpu);
/* The CPU's sheaf for kfree_rcu(), which has room. NULL: no memory. */
struct sheaf *sheaf_for_rcu(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu);
/* It goes to the node. */
void sheaf_put_after_rcu(struct model_cache *cache, struct sheaf *sheaf, unsigned int cpu);

/* The last sheaf that a task holds and that was filled on the CPU, or if there is none, on any;
 * NULL: no task is known to hold one. */
struct sheaf *slub_held_sheaf(const struct model_cache *cache, unsigned int cpu);
void slub_held_destroy(struct held_sheaf *held);

#endif
