/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sheaves of SLUB since 7.0: a CPU has two arrays of free objects, and a third one that kfree_rcu()
 * fills; a node's barn has more of them. The memory of the arrays themselves is not counted: it is
 * in the trace of a guest that has sheaves, as any other.
 */
#include <errno.h>
#include <stdlib.h>
#include "formats/allocators/slub.h"

enum { BARN_MOST = 10 }; /* full sheaves that a barn keeps, and likewise empty ones */

struct sheaf {
	uint64_t count;
	struct slab *objects[];
};

/* Each may be missing. */
struct cpu_sheaves {
	struct sheaf *main, *spare, *rcu;
};

struct barn {
	struct sheaf *full[BARN_MOST];
	unsigned int count;
	uint64_t nr_empty; /* other sheaves; what is exchanged goes beyond BARN_MOST */
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

static bool is_full(const struct slub *slub, const struct sheaf *sheaf)
{
	return sheaf->count == slub->limits.sheaf;
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

static void destroy_cpu(struct cpu_sheaves *own)
{
	if (!own)
		return;
	free(own->main);
	free(own->spare);
	free(own->rcu);
	free(own);
}

void slub_sheaves_destroy(struct slub_sheaves *sheaves, unsigned int cpus)
{
	if (!sheaves)
		return;
	for (unsigned int i = 0; sheaves->barns && i < sheaves->nodes; i++) {
		for (unsigned int j = 0; j < sheaves->barns[i].count; j++)
			free(sheaves->barns[i].full[j]);
	}
	for (unsigned int i = 0; sheaves->cpus && i < cpus; i++)
		destroy_cpu(sheaves->cpus[i]);
	free(sheaves->barns);
	free(sheaves->cpus);
	free(sheaves);
}

/* A CPU with its first sheaf, or NULL. */
static struct cpu_sheaves *cpu_of(const struct slub *slub, unsigned int cpu)
{
	struct cpu_sheaves *own = slab_part((void **)slub->sheaves->cpus, cpu, sizeof(*own));

	if (own && !own->main)
		own->main = sheaf_create(slub);
	return own && own->main ? own : NULL;
}

static struct barn *barn_of(const struct model_cache *cache, unsigned int cpu)
{
	const struct slub *slub = cache->own;

	return &slub->sheaves->barns[model_node_of(cache, cpu)];
}

static struct sheaf *take(struct sheaf **from)
{
	struct sheaf *sheaf = *from;

	*from = NULL;
	return sheaf;
}

static void swap(struct cpu_sheaves *own)
{
	struct sheaf *main = own->main;

	own->main = own->spare;
	own->spare = main;
}

/* An empty sheaf of the barn, or NULL. */
static struct sheaf *take_empty(const struct slub *slub, struct barn *barn)
{
	if (!barn->nr_empty)
		return NULL;
	barn->nr_empty--;
	return sheaf_create(slub);
}

static struct sheaf *empty_sheaf(const struct slub *slub, struct barn *barn)
{
	struct sheaf *sheaf = take_empty(slub, barn);

	return sheaf ? sheaf : sheaf_create(slub);
}

static void flush(struct sheaf *sheaf, unsigned int cpu)
{
	slub_free_slabs(sheaf->objects, sheaf->count, cpu);
	sheaf->count = 0;
}

/* --- allocating ------------------------------------------------------------------------------ */

static void fill(struct model_cache *cache, struct sheaf *sheaf, unsigned int node)
{
	const struct slub *slub = cache->own;

	sheaf->count += slub_take_objects(cache, node, sheaf->objects + sheaf->count,
					  slub->limits.sheaf - sheaf->count);
}

/* The first sheaf is empty. An array of objects does not have it filled from slabs. */
static void replace_empty(struct model_cache *cache, struct cpu_sheaves *own,
			  const struct placement *where)
{
	struct barn *barn = barn_of(cache, where->cpu);

	if (own->spare && own->spare->count) {
		swap(own);
	} else if (barn->count) {
		free(own->main);
		own->main = barn->full[--barn->count];
		barn->nr_empty++;
	} else if (!where->in_array) {
		if (!own->spare)
			own->spare = empty_sheaf(cache->own, barn);
		if (own->spare)
			swap(own);
		fill(cache, own->main, where->node);
	}
}

/*
 * Out of a sheaf that the caller has filled beforehand, unless it had as many objects as the caller
 * asked for, and returns later. That is the CPU's second one, if there is one.
 */
static struct slab *alloc_prefilled(struct model_cache *cache, struct cpu_sheaves *own,
				    const struct placement *where)
{
	struct barn *barn = barn_of(cache, where->cpu);

	if (!own->spare)
		own->spare =
			barn->count ? barn->full[--barn->count] : empty_sheaf(cache->own, barn);
	if (!own->spare)
		return NULL;
	if (own->spare->count < where->prefilled)
		fill(cache, own->spare, where->node);
	return own->spare->count ? own->spare->objects[--own->spare->count] : NULL;
}

struct slab *slub_sheaves_alloc(struct model_cache *cache, const struct placement *where)
{
	struct cpu_sheaves *own = cpu_of(cache->own, where->cpu);

	/* Sheaves hold objects of the CPU's own node only. */
	if (!own || where->node != model_node_of(cache, where->cpu))
		return slub_take_object(cache, where->node);
	if (cache->params.prefilled && where->prefilled)
		return alloc_prefilled(cache, own, where);
	if (!own->main->count)
		replace_empty(cache, own, where);
	if (!own->main->count)
		return slub_take_object(cache, where->node);
	return own->main->objects[--own->main->count];
}

/* --- freeing --------------------------------------------------------------------------------- */

/* Exchanges the first sheaf, which is full, for one that is not, without making one. Returns
 * whether there was any. */
static bool exchange_full(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu)
{
	const struct slub *slub = cache->own;
	struct barn *barn = barn_of(cache, cpu);
	struct sheaf *empty;

	if (!own->spare)
		own->spare = take_empty(slub, barn);
	if (own->spare && !is_full(slub, own->spare)) {
		swap(own);
		return true;
	}
	empty = own->spare && barn->count < BARN_MOST ? take_empty(slub, barn) : NULL;
	if (!empty)
		return false;
	barn->full[barn->count++] = own->main;
	own->main = empty;
	return true;
}

/* The first sheaf is full. Returns 0 or -ENOMEM. */
static int replace_full(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu)
{
	struct barn *barn = barn_of(cache, cpu);

	if (exchange_full(cache, own, cpu))
		return 0;
	if (own->spare && barn->count == BARN_MOST)
		flush(own->spare, cpu);
	else
		barn->nr_empty++;
	return exchange_full(cache, own, cpu) ? 0 : -ENOMEM;
}

void slub_sheaves_free(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = cpu_of(slub, cpu);

	if (!own || slab->node != model_node_of(cache, cpu) ||
	    (is_full(slub, own->main) && replace_full(cache, own, cpu)))
		slub_give_objects(cache, slab, 1);
	else
		own->main->objects[own->main->count++] = slab;
}

bool slub_sheaves_take_back(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = cpu_of(slub, cpu);

	if (!own || slab->node != model_node_of(cache, cpu) ||
	    (is_full(slub, own->main) && !exchange_full(cache, own, cpu)))
		return false;
	own->main->objects[own->main->count++] = slab;
	return true;
}

/* After the grace period. */
static void put_rcu_sheaf(struct model_cache *cache, struct sheaf *sheaf, unsigned int cpu)
{
	struct barn *barn = barn_of(cache, cpu);

	if (barn->count < BARN_MOST) {
		barn->full[barn->count++] = sheaf;
		return;
	}
	flush(sheaf, cpu);
	free(sheaf);
	if (barn->nr_empty < BARN_MOST)
		barn->nr_empty++;
}

/* A second sheaf that is empty, or another one. */
static struct sheaf *begin_rcu_sheaf(struct model_cache *cache, struct cpu_sheaves *own,
				     unsigned int cpu)
{
	if (own->spare && !own->spare->count)
		return take(&own->spare);
	return empty_sheaf(cache->own, barn_of(cache, cpu));
}

void slub_sheaves_free_rcu(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = cpu_of(slub, cpu);

	if (own && !own->rcu)
		own->rcu = begin_rcu_sheaf(cache, own, cpu);
	if (!own || !own->rcu || slab->node != model_node_of(cache, cpu)) {
		slub_give_objects(cache, slab, 1);
		return;
	}
	own->rcu->objects[own->rcu->count++] = slab;
	if (is_full(slub, own->rcu))
		put_rcu_sheaf(cache, take(&own->rcu), cpu);
}

/* --- shrinking ------------------------------------------------------------------------------- */

void slub_sheaves_flush(struct model_cache *cache)
{
	const struct slub *slub = cache->own;
	struct slub_sheaves *sheaves = slub->sheaves;

	for (unsigned int i = 0; i < cache->cpus; i++) {
		struct cpu_sheaves *own = sheaves->cpus[i];

		if (own && own->spare)
			flush(own->spare, i);
		if (own && own->main)
			flush(own->main, i);
	}
	for (unsigned int i = 0; i < sheaves->nodes; i++) {
		struct barn *barn = &sheaves->barns[i];

		for (; barn->count; free(barn->full[barn->count]))
			flush(barn->full[--barn->count], 0);
		barn->nr_empty = 0;
	}
}
