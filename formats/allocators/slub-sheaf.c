/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sheaves of SLUB since 7.0: a CPU has two arrays of free objects, and a node's barn has more of
 * them. The memory of the arrays themselves is not counted: it is in the trace of a guest that has
 * sheaves, as any other.
 */
#include <errno.h>
#include <stdlib.h>
#include "formats/allocators/slub.h"

enum { BARN_MOST = 10 }; /* full sheaves that a barn keeps */

struct sheaf {
	uint64_t count;
	struct slab *objects[];
};

struct cpu_sheaves {
	struct sheaf *main, *spare;
};

struct barn {
	struct sheaf *full[BARN_MOST];
	unsigned int count;
};

struct slub_sheaves {
	struct barn *barns; /* by node */
	unsigned int nodes;
	struct cpu_sheaves **cpus;
};

static struct sheaf *sheaf_create(const struct slub *slub)
{
	return calloc(1, sizeof(struct sheaf) + slub->limits.sheaf * sizeof(struct slab *));
}

int slub_sheaves_create(struct model_cache *cache)
{
	struct slub *slub = cache->own;
	struct slub_sheaves *sheaves = calloc(1, sizeof(*sheaves));

	if (!sheaves)
		return -ENOMEM;
	slub->sheaves = sheaves;
	sheaves->nodes = cache->nodes;
	sheaves->barns = calloc(cache->nodes, sizeof(*sheaves->barns));
	sheaves->cpus = calloc(cache->cpus, sizeof(*sheaves->cpus));
	return sheaves->barns && sheaves->cpus ? 0 : -ENOMEM;
}

void slub_sheaves_destroy(struct slub_sheaves *sheaves, unsigned int cpus)
{
	if (!sheaves)
		return;
	for (unsigned int i = 0; sheaves->barns && i < sheaves->nodes; i++) {
		for (unsigned int j = 0; j < sheaves->barns[i].count; j++)
			free(sheaves->barns[i].full[j]);
	}
	for (unsigned int i = 0; sheaves->cpus && i < cpus; i++) {
		if (!sheaves->cpus[i])
			continue;
		free(sheaves->cpus[i]->main);
		free(sheaves->cpus[i]->spare);
		free(sheaves->cpus[i]);
	}
	free(sheaves->barns);
	free(sheaves->cpus);
	free(sheaves);
}

/* A CPU with both of its sheaves, or NULL. */
static struct cpu_sheaves *cpu_of(const struct slub *slub, unsigned int cpu)
{
	struct cpu_sheaves *pair = slab_part((void **)slub->sheaves->cpus, cpu, sizeof(*pair));

	if (!pair)
		return NULL;
	if (!pair->main)
		pair->main = sheaf_create(slub);
	if (!pair->spare)
		pair->spare = sheaf_create(slub);
	return pair->main && pair->spare ? pair : NULL;
}

static void swap(struct cpu_sheaves *pair)
{
	struct sheaf *main = pair->main;

	pair->main = pair->spare;
	pair->spare = main;
}

/* Both sheaves of the CPU are empty: the barn's next full one takes the place of the first, or it
 * is filled from slabs. */
static void fill_main(struct model_cache *cache, struct cpu_sheaves *pair, unsigned int node)
{
	struct slub *slub = cache->own;
	struct barn *barn = &slub->sheaves->barns[node];
	struct slab *slab;

	if (barn->count) {
		free(pair->main);
		pair->main = barn->full[--barn->count];
		return;
	}
	while (pair->main->count < slub->limits.sheaf && (slab = slub_take_object(cache, node)))
		pair->main->objects[pair->main->count++] = slab;
}

struct slab *slub_sheaves_alloc(struct model_cache *cache, unsigned int cpu, unsigned int node)
{
	struct cpu_sheaves *pair = cpu_of(cache->own, cpu);

	/* Sheaves hold objects of the CPU's own node only. */
	if (!pair || node != model_node_of(cache, cpu))
		return slub_take_object(cache, node);
	if (!pair->main->count && pair->spare->count)
		swap(pair);
	if (!pair->main->count)
		fill_main(cache, pair, node);
	return pair->main->count ? pair->main->objects[--pair->main->count] : NULL;
}

/* Both sheaves of the CPU are full: the barn takes the first, or its objects go to their slabs. */
static void empty_main(struct model_cache *cache, struct cpu_sheaves *pair, unsigned int node)
{
	struct slub *slub = cache->own;
	struct barn *barn = &slub->sheaves->barns[node];
	struct sheaf *fresh = barn->count < BARN_MOST ? sheaf_create(slub) : NULL;

	if (fresh) {
		barn->full[barn->count++] = pair->main;
		pair->main = fresh;
		return;
	}
	while (pair->main->count)
		slub_give_object(cache, pair->main->objects[--pair->main->count]);
}

void slub_sheaves_free(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *pair = cpu_of(slub, cpu);

	if (!pair || slab->node != model_node_of(cache, cpu)) {
		slub_give_object(cache, slab);
		return;
	}
	if (pair->main->count == slub->limits.sheaf && pair->spare->count < slub->limits.sheaf)
		swap(pair);
	if (pair->main->count == slub->limits.sheaf)
		empty_main(cache, pair, slab->node);
	pair->main->objects[pair->main->count++] = slab;
}
