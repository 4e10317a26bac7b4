/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a trace may tell of sheaves (told-calls.h): which ones tasks hold that have had them filled
 * beforehand, and when kfree_rcu() was called for the objects of others.
 */
#include <stdlib.h>
#include <string.h>
#include "formats/allocators/slub-sheaf.h"

void slub_held_destroy(struct held_sheaf *held)
{
	struct held_sheaf *next;

	for (; held; held = next) {
		next = held->next;
		free(held->sheaf);
		free(held);
	}
}

struct sheaf *slub_held_sheaf(const struct model_cache *cache, unsigned int cpu)
{
	const struct slub *slub = cache->own;
	const struct held_sheaf *first = slub->sheaves->held, *held = first;

	while (held && held->cpu != cpu)
		held = held->next;
	if (!held)
		held = first;
	return held ? held->sheaf : NULL;
}

static struct held_sheaf **held_by(struct slub_sheaves *sheaves, uint64_t task)
{
	struct held_sheaf **link = &sheaves->held;

	while (*link && (*link)->task != task)
		link = &(*link)->next;
	return link;
}

void slub_sheaves_prefill(struct model_cache *cache, unsigned int cpu, uint64_t task,
			  uint64_t objects)
{
	struct slub *slub = cache->own;
	struct cpu_sheaves *own = slub->sheaves ? sheaves_of_cpu(slub, cpu) : NULL;
	struct held_sheaf *held = own ? calloc(1, sizeof(*held)) : NULL;

	if (!held)
		return;
	/* a trace may lack the end of the one before */
	slub_sheaves_end_prefill(cache, cpu, task);
	*held = (struct held_sheaf){.next = slub->sheaves->held,
				    .sheaf = sheaf_to_prefill(cache, own, cpu),
				    .task = task,
				    .cpu = cpu};
	if (!held->sheaf) {
		free(held);
		return;
	}
	if (held->sheaf->count < objects)
		sheaf_fill(cache, held->sheaf, model_node_of(cache, cpu));
	slub->sheaves->held = held;
}

/* A sheaf that was filled beforehand comes back. The node gets full ones only. */
static void take_back(struct model_cache *cache, struct cpu_sheaves *own, struct sheaf *sheaf,
		      unsigned int cpu)
{
	struct barn *barn = sheaf_barn(cache, cpu);

	if (own && !own->spare) {
		own->spare = sheaf;
	} else if (barn->count < BARN_MOST) {
		sheaf_fill(cache, sheaf, model_node_of(cache, cpu));
		barn->full[barn->count++] = sheaf;
	} else {
		sheaf_flush(sheaf, cpu);
		free(sheaf);
	}
}

void slub_sheaves_end_prefill(struct model_cache *cache, unsigned int cpu, uint64_t task)
{
	struct slub *slub = cache->own;
	struct held_sheaf **link = slub->sheaves ? held_by(slub->sheaves, task) : NULL;
	struct held_sheaf *held = link ? *link : NULL;

	if (!held)
		return;
	*link = held->next;
	take_back(cache, sheaves_of_cpu(slub, cpu), held->sheaf, cpu);
	free(held);
}

/* --- grace periods that are known ------------------------------------------------------------ */

static void put_waiting(struct sheaf **link, struct sheaf *sheaf)
{
	while (*link)
		link = &(*link)->next;
	*link = sheaf;
}

/* Returns the number of its sheaf, or 0. */
static uint64_t put_later(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu,
			  struct slab *slab)
{
	struct sheaf *sheaf = sheaf_for_rcu(cache, own, cpu);

	if (!sheaf)
		return 0;
	sheaf->objects[sheaf->count++] = slab;
	if (sheaf_is_full(cache->own, sheaf))
		put_waiting(&own->waiting, sheaf_take(&own->rcu));
	return sheaf->number;
}

uint64_t slub_sheaves_free_later(struct model_cache *cache, unsigned int cpu, uintptr_t token)
{
	struct slub *slub = cache->own;
	struct cpu_sheaves *own = slub->sheaves ? sheaves_of_cpu(slub, cpu) : NULL;
	struct slab *slab = (struct slab *)token;

	return own && slab->node == model_node_of(cache, cpu) ? put_later(cache, own, cpu, slab)
							      : 0;
}

/* The sheaf of this number, and whose it is. NULL: its objects are free. */
static struct sheaf *take_waiting(struct model_cache *cache, uint64_t number, unsigned int *cpu)
{
	const struct slub_sheaves *sheaves = ((struct slub *)cache->own)->sheaves;

	for (*cpu = 0; *cpu < cache->cpus; ++*cpu) {
		struct cpu_sheaves *own = sheaves->cpus[*cpu];
		struct sheaf **link = own ? &own->waiting : NULL;
		struct sheaf *found;

		while (link && *link && (*link)->number != number)
			link = &(*link)->next;
		found = link ? *link : NULL;
		if (found)
			*link = found->next;
		else if (own && own->rcu && own->rcu->number == number)
			found = sheaf_take(&own->rcu);
		if (found)
			return found;
	}
	return NULL;
}

/* Puts these objects in front of a sheaf's; those that it has no room for take their place. */
static uint64_t push_front(const struct slub *slub, struct sheaf *sheaf, struct slab **objects,
			   uint64_t n, struct slab **all)
{
	const size_t size = sizeof(*all);
	const uint64_t total = n + sheaf->count;
	const uint64_t kept = total < slub->limits.sheaf ? total : slub->limits.sheaf;

	memcpy(all, objects, n * size);
	memcpy(all + n, sheaf->objects, sheaf->count * size);
	memcpy(sheaf->objects, all, kept * size);
	memcpy(objects, all + kept, (total - kept) * size);
	sheaf->count = kept;
	return total - kept;
}

/* The objects were put into the CPU's sheaves before all that are in them. */
static void put_earlier(struct model_cache *cache, struct cpu_sheaves *own, unsigned int cpu,
			struct slab **objects, uint64_t n)
{
	const struct slub *slub = cache->own;
	struct slab **all = calloc(2 * slub->limits.sheaf, sizeof(struct slab *));

	for (struct sheaf *sheaf = own->waiting; all && sheaf; sheaf = sheaf->next)
		n = push_front(slub, sheaf, objects, n, all);
	if (all && own->rcu) {
		n = push_front(slub, own->rcu, objects, n, all);
		if (sheaf_is_full(slub, own->rcu))
			put_waiting(&own->waiting, sheaf_take(&own->rcu));
	}
	for (uint64_t i = 0; i < n; i++)
		put_later(cache, own, cpu, objects[i]);
	free(all);
}

/* The first ones of a sheaf go with others that were put into it before. Those behind them are for
 * the next sheaf. */
static void complete(struct model_cache *cache, struct sheaf *sheaf, unsigned int cpu,
		     const struct waiting *what)
{
	const struct slub *slub = cache->own;
	const uint64_t first = what->objects < sheaf->count ? what->objects : sheaf->count;

	put_earlier(cache, slub->sheaves->cpus[cpu], cpu, sheaf->objects + first,
		    sheaf->count - first);
	memmove(sheaf->objects + what->nr_before, sheaf->objects, first * sizeof(struct slab *));
	for (size_t i = 0; i < what->nr_before; i++)
		sheaf->objects[i] = (struct slab *)what->before[i];
	sheaf->count = what->nr_before + first;
}

void slub_sheaves_free_waiting(struct model_cache *cache, unsigned int cpu,
			       const struct waiting *what)
{
	const struct slub *slub = cache->own;
	unsigned int owner;
	struct sheaf *sheaf = take_waiting(cache, what->number, &owner);

	if (sheaf && what->nr_before && what->nr_before + what->objects <= slub->limits.sheaf)
		complete(cache, sheaf, owner, what);
	else
		for (size_t i = 0; i < what->nr_before; i++)
			slub_sheaves_free_rcu(cache, cpu, (struct slab *)what->before[i]);
	if (sheaf)
		sheaf_put_after_rcu(cache, sheaf, cpu);
}
