/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sheaves of SLUB since 7.0: a CPU has two arrays of free objects, and a third one that kfree_rcu()
 * fills; a node's barn has more of them. The memory of the arrays themselves is not counted: it is
 * in the trace of a guest that has sheaves, as any other.
 */
#include <errno.h>
#include <stdlib.h>
#include "formats/allocators/slub-sheaf.h"

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

static void sheaf_destroy_all(struct sheaf *sheaf)
{
	struct sheaf *next;

	for (; sheaf; sheaf = next) {
		next = sheaf->next;
		free(sheaf);
	}
}

static void destroy_cpu(struct cpu_sheaves *own)
{
	if (!own)
		return;
	sheaf_destroy_all(own->waiting);
	free(own->main);
	free(own->spare);
	free(own->rcu);
	free(own);
}

void slub_sheaves_destroy(struct slub_sheaves *sheaves, unsigned int cpus)
{
	if (!sheaves)
		return;
	slub_held_destroy(sheaves->held);
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
struct cpu_sheaves *sheaves_of_cpu(const struct slub *slub, unsigned int cpu)
{
	struct cpu_sheaves *own = slab_part((void **)slub->sheaves->cpus, cpu, sizeof(*own));

	if (own && !own->main)
		own->main = sheaf_create(slub);
	return own && own->main ? own : NULL;
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

void sheaf_flush(struct sheaf *sheaf, unsigned int cpu)
{
	slub_free_slabs(sheaf->objects, sheaf->count, cpu);
	sheaf->count = 0;
}

/* --- allocating ------------------------------------------------------------------------------ */

void sheaf_fill(struct model_cache *cache, struct sheaf *sheaf, unsigned int node)
{
	const struct slub *slub = cache->own;

	sheaf->count += slub_take_objects(cache, node, sheaf->objects + sheaf->count,
					  slub->limits.sheaf - sheaf->count);
}

/* The first sheaf is empty. An array of objects does not have it filled from slabs. */
static void replace_empty(struct model_cache *cache, struct cpu_sheaves *own,
			  const struct placement *where)
{
	struct barn *barn = sheaf_barn(cache, where->cpu);

	if (own->spare && own->spare->count) {
		swap(own);
	} else if (barn->count) {
		free(own->main);
		own->main = barn->full[--barn->count];
		barn->nr_empty++;
	} else if (!where->in_array && (own->spare || barn->nr_empty || !where->makes_no_sheaf)) {
		if (!own->spare)
			own->spare = empty_sheaf(cache->own, barn);
		if (own->spare)
			swap(own);
		sheaf_fill(cache, own->main, where->node);
	}
}

/* The CPU's second one, or one of the node. */
struct sheaf *sheaf_to_prefill(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu)
{
	struct barn *barn = sheaf_barn(cache, cpu);

	if (own->spare)
		return sheaf_take(&own->spare);
	return barn->count ? barn->full[--barn->count] : empty_sheaf(cache->own, barn);
}

static struct slab *take_last(struct sheaf *sheaf)
{
	return sheaf->count ? sheaf->objects[--sheaf->count] : NULL;
}

/*
 * Out of a sheaf that the caller has filled beforehand, unless it had as many objects as the caller
 * asked for, and returns later.
 */
static struct slab *alloc_prefilled(struct model_cache *cache, struct cpu_sheaves *own,
				    const struct placement *where)
{
	struct sheaf *held = slub_held_sheaf(cache, where->cpu);

	if (held) {
		if (!held->count)
			sheaf_fill(cache, held, where->node);
		return take_last(held);
	}
	own->spare = sheaf_to_prefill(cache, own, where->cpu);
	if (!own->spare)
		return NULL;
	if (own->spare->count < where->prefilled)
		sheaf_fill(cache, own->spare, where->node);
	return take_last(own->spare);
}

struct slab *slub_sheaves_alloc(struct model_cache *cache, const struct placement *where)
{
	struct cpu_sheaves *own = sheaves_of_cpu(cache->own, where->cpu);

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
	struct barn *barn = sheaf_barn(cache, cpu);
	struct sheaf *empty;

	if (!own->spare)
		own->spare = take_empty(slub, barn);
	if (own->spare && !sheaf_is_full(slub, own->spare)) {
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
	struct barn *barn = sheaf_barn(cache, cpu);

	if (exchange_full(cache, own, cpu))
		return 0;
	if (own->spare && barn->count == BARN_MOST)
		sheaf_flush(own->spare, cpu);
	else
		barn->nr_empty++;
	return exchange_full(cache, own, cpu) ? 0 : -ENOMEM;
}

void slub_sheaves_free(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = sheaves_of_cpu(slub, cpu);

	if (!own || slab->node != model_node_of(cache, cpu) ||
	    (sheaf_is_full(slub, own->main) && replace_full(cache, own, cpu)))
		slub_give_objects(cache, slab, 1);
	else
		own->main->objects[own->main->count++] = slab;
}

bool slub_sheaves_take_back(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = sheaves_of_cpu(slub, cpu);

	if (!own || slab->node != model_node_of(cache, cpu) ||
	    (sheaf_is_full(slub, own->main) && !exchange_full(cache, own, cpu)))
		return false;
	own->main->objects[own->main->count++] = slab;
	return true;
}

/* After the grace period. */
void sheaf_put_after_rcu(struct model_cache *cache, struct sheaf *sheaf, unsigned int cpu)
{
	struct barn *barn = sheaf_barn(cache, cpu);

	if (barn->count < BARN_MOST) {
		barn->full[barn->count++] = sheaf;
		return;
	}
	sheaf_flush(sheaf, cpu);
	free(sheaf);
	if (barn->nr_empty < BARN_MOST)
		barn->nr_empty++;
}

/* A second sheaf that is empty, or another one. */
static struct sheaf *begin_rcu_sheaf(struct model_cache *cache, struct cpu_sheaves *own,
				     unsigned int cpu)
{
	if (own->spare && !own->spare->count)
		return sheaf_take(&own->spare);
	return empty_sheaf(cache->own, sheaf_barn(cache, cpu));
}

/* The CPU's sheaf for kfree_rcu(), which has room. NULL: no memory. */
struct sheaf *sheaf_for_rcu(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu)
{
	if (!own->rcu) {
		own->rcu = begin_rcu_sheaf(cache, own, cpu);
		if (own->rcu)
			own->rcu->number = ++((struct slub *)cache->own)->sheaves->last_number;
	}
	return own->rcu;
}

void slub_sheaves_free_rcu(struct model_cache *cache, unsigned int cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;
	struct cpu_sheaves *own = sheaves_of_cpu(slub, cpu);

	if (!own || slab->node != model_node_of(cache, cpu) || !sheaf_for_rcu(cache, own, cpu)) {
		slub_give_objects(cache, slab, 1);
		return;
	}
	own->rcu->objects[own->rcu->count++] = slab;
	if (sheaf_is_full(slub, own->rcu))
		sheaf_put_after_rcu(cache, sheaf_take(&own->rcu), cpu);
}

/* --- shrinking ------------------------------------------------------------------------------- */

void slub_sheaves_flush(struct model_cache *cache)
{
	const struct slub *slub = cache->own;
	struct slub_sheaves *sheaves = slub->sheaves;

	for (unsigned int i = 0; i < cache->cpus; i++) {
		struct cpu_sheaves *own = sheaves->cpus[i];

		if (own && own->spare)
			sheaf_flush(own->spare, i);
		if (own && own->main)
			sheaf_flush(own->main, i);
	}
	for (unsigned int i = 0; i < sheaves->nodes; i++) {
		struct barn *barn = &sheaves->barns[i];

		for (; barn->count; free(barn->full[barn->count]))
			sheaf_flush(barn->full[--barn->count], 0);
		barn->nr_empty = 0;
	}
}
