/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of SLUB (mm/slub.c). What counts for memory is which slab an object lies in, and on which
 * list that slab is: a CPU's own slab, a CPU's partial list, a node's partial list, or none as it
 * is full. Places within a slab do not matter.
 */
#include "formats/allocators/slub.h"

#include <errno.h>
#include <stddef.h>

static int cache_init(struct model_cache *cache)
{
	struct slub *slub = calloc(1, sizeof(*slub));

	if (!slub)
		return -ENOMEM;
	cache->own = slub;
	slub_set_order(cache);
	slub->limits = slub_limits_of(cache);
	slub->nodes = calloc(cache->nodes, sizeof(*slub->nodes));
	slub->cpus = calloc(cache->cpus, sizeof(*slub->cpus));
	if (!slub->nodes || !slub->cpus)
		return -ENOMEM;
	return slub->limits.sheaf ? slub_sheaves_create(cache) : 0;
}

static void cache_deinit(struct model_cache *cache)
{
	struct slub *slub = cache->own;

	if (!slub)
		return;
	slab_list_destroy(&slub->full);
	for (unsigned int i = 0; slub->nodes && i < cache->nodes; i++)
		slab_list_destroy(&slub->nodes[i]);
	for (unsigned int i = 0; slub->cpus && i < cache->cpus; i++) {
		if (!slub->cpus[i])
			continue;
		slab_list_destroy(&slub->cpus[i]->partial);
		free(slub->cpus[i]->slab);
		free(slub->cpus[i]);
	}
	slub_sheaves_destroy(slub->sheaves, cache->cpus);
	free(slub->nodes);
	free(slub->cpus);
	free(slub);
}

/* --- lists of nodes -------------------------------------------------------------------------- */

/* A slab that no CPU has any longer: kept, unless it is empty and there are enough. */
static void release_slab(struct model_cache *cache, struct slab *slab, enum slab_end end)
{
	struct slub *slub = cache->own;
	struct slab_list *list = &slub->nodes[slab->node];

	slab->frozen = false;
	if (slab->inuse == cache->per_slab)
		slab_list_add(&slub->full, slab, SLAB_HEAD);
	else if (!slab->inuse && list->count >= slub->limits.min_partial)
		slab_destroy(cache, slab);
	else
		slab_list_add(list, slab, end);
}

struct slab *slub_take_object(struct model_cache *cache, unsigned int node)
{
	struct slub *slub = cache->own;
	struct slab *slab = slub->nodes[node].first;

	if (slab)
		slab_list_remove(slab);
	else
		slab = slab_create(cache, node);
	if (!slab)
		return NULL;
	slab->inuse++;
	slab_list_add(slab->inuse == cache->per_slab ? &slub->full : &slub->nodes[node], slab,
		      SLAB_HEAD);
	return slab;
}

/* A slab that no CPU has, and that was not full, got an object back. */
static void note_free_in_partial(struct model_cache *cache, struct slab *slab)
{
	struct slub *slub = cache->own;

	if (!slab->inuse && slub->nodes[slab->node].count >= slub->limits.min_partial) {
		slab_list_remove(slab);
		slab_destroy(cache, slab);
	}
}

void slub_give_object(struct model_cache *cache, struct slab *slab)
{
	if (slab->inuse-- == cache->per_slab) {
		slab_list_remove(slab);
		release_slab(cache, slab, SLAB_TAIL);
	} else {
		note_free_in_partial(cache, slab);
	}
}

/* --- lists of CPUs --------------------------------------------------------------------------- */

static bool list_is_full(const struct model_cache *cache, const struct slub_cpu *cpu)
{
	const struct slub *slub = cache->own;

	return cache->model->partial_objects ? cpu->free_objects > slub->limits.cpu_partial
					     : cpu->partial.count >= slub->limits.cpu_partial;
}

/* All of a CPU's partial slabs go to their nodes. */
static void drain_partial(struct model_cache *cache, struct slub_cpu *cpu)
{
	while (cpu->partial.first) {
		struct slab *slab = cpu->partial.first;

		slab_list_remove(slab);
		release_slab(cache, slab, SLAB_TAIL);
	}
	cpu->free_objects = 0;
}

static void add_partial(struct model_cache *cache, struct slub_cpu *cpu, struct slab *slab)
{
	slab->frozen = true;
	slab_list_add(&cpu->partial, slab, SLAB_HEAD);
	cpu->free_objects += cache->per_slab - slab->inuse;
}

/* The next of a CPU's own partial slabs, or NULL. What is left of the list keeps the number of free
 * objects that it was counted with. */
static struct slab *next_partial(struct slub_cpu *cpu, unsigned int node, struct model_cache *cache)
{
	struct slab *slab = cpu->partial.first;

	if (!slab)
		return NULL;
	slab_list_remove(slab);
	if (!cpu->partial.first)
		cpu->free_objects = 0;
	if (slab->node == node)
		return slab;
	release_slab(cache, slab, SLAB_HEAD);
	return next_partial(cpu, node, cache);
}

/* Whether a CPU that took a slab for itself takes no more for its list. */
static bool took_enough(const struct model_cache *cache, uint64_t slabs, uint64_t objects)
{
	const uint64_t most = ((const struct slub *)cache->own)->limits.cpu_partial;

	return !most || (cache->model->partial_objects ? objects : slabs) > most / 2;
}

/* The first of the node's partial slabs; the CPU's list gets some more of them. */
static struct slab *take_from_node(struct model_cache *cache, struct slub_cpu *cpu,
				   unsigned int node)
{
	struct slab_list *list = &((struct slub *)cache->own)->nodes[node];
	struct slab *taken = NULL, *slab;
	uint64_t slabs = 0, objects = 0;

	while ((slab = list->first)) {
		slab_list_remove(slab);
		slab->frozen = true;
		objects += cache->per_slab - slab->inuse;
		if (taken) {
			add_partial(cache, cpu, slab);
			slabs++;
		} else {
			taken = slab;
		}
		if (took_enough(cache, slabs, objects))
			break;
	}
	return taken;
}

/* The CPU's slab is full, or of another node: it gets another one. */
static struct slab *replace_slab(struct model_cache *cache, struct slub_cpu *cpu, unsigned int node)
{
	if (cpu->slab)
		release_slab(cache, cpu->slab, SLAB_HEAD);
	cpu->slab = next_partial(cpu, node, cache);
	if (!cpu->slab)
		cpu->slab = take_from_node(cache, cpu, node);
	if (!cpu->slab)
		cpu->slab = slab_create(cache, node);
	if (cpu->slab)
		cpu->slab->frozen = true;
	return cpu->slab;
}

static int alloc(struct model_cache *cache, unsigned int cpu_number, unsigned int node,
		 const struct object_shape *shape, uintptr_t *token)
{
	struct slub *slub = cache->own;
	struct slub_cpu *cpu;
	struct slab *slab;

	(void)shape;
	if (slub->sheaves) {
		slab = slub_sheaves_alloc(cache, cpu_number, node);
	} else {
		cpu = slab_part((void **)slub->cpus, cpu_number, sizeof(*cpu));
		if (!cpu)
			return -ENOMEM;
		slab = cpu->slab;
		if (!slab || slab->inuse == cache->per_slab || slab->node != node)
			slab = replace_slab(cache, cpu, node);
		if (slab)
			slab->inuse++;
	}
	*token = (uintptr_t)slab;
	return slab ? 0 : -ENOMEM;
}

/* A full slab that no CPU had got a free object. */
static void note_first_free(struct model_cache *cache, struct slub_cpu *cpu, struct slab *slab)
{
	const struct slub *slub = cache->own;

	slab_list_remove(slab);
	if (!slub->limits.cpu_partial) {
		release_slab(cache, slab, SLAB_TAIL);
		return;
	}
	if (list_is_full(cache, cpu))
		drain_partial(cache, cpu);
	add_partial(cache, cpu, slab);
}

static void free_object(struct model_cache *cache, unsigned int cpu_number,
			const struct object_shape *shape, uintptr_t token)
{
	struct slub *slub = cache->own;
	struct slab *slab = (struct slab *)token;
	struct slub_cpu *cpu;

	(void)shape;
	if (slub->sheaves) {
		slub_sheaves_free(cache, cpu_number, slab);
		return;
	}
	cpu = slab_part((void **)slub->cpus, cpu_number, sizeof(*cpu));
	if (slab->frozen) {
		slab->inuse--;
	} else if (slab->inuse == cache->per_slab && cpu) {
		slab->inuse--;
		note_first_free(cache, cpu, slab);
	} else {
		slub_give_object(cache, slab);
	}
}

const struct allocator_ops slub_allocator = {
	.name = "SLUB",
	.slot_least = sizeof(void *),
	.cache_init = cache_init,
	.cache_deinit = cache_deinit,
	.alloc = alloc,
	.free = free_object,
};
