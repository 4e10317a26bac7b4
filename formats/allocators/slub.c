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
	slub->has_slabs = !cache->model->cache.sheaf;
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

/* A slab that no CPU has, and that was not full, got objects back. */
static void note_free_in_partial(struct model_cache *cache, struct slab *slab)
{
	struct slub *slub = cache->own;

	if (!slab->inuse && slub->nodes[slab->node].count >= slub->limits.min_partial) {
		slab_list_remove(slab);
		slab_destroy(cache, slab);
	}
}

void slub_give_objects(struct model_cache *cache, struct slab *slab, uint32_t n)
{
	const bool was_full = slab->inuse == cache->per_slab;

	slab->inuse -= n;
	if (was_full) {
		slab_list_remove(slab);
		release_slab(cache, slab, SLAB_TAIL);
	} else {
		note_free_in_partial(cache, slab);
	}
}

/* The first of a node's partial slabs that together have so many free objects, the last one first.
 */
static void take_partials(struct model_cache *cache, unsigned int node, uint64_t wanted,
			  struct slab_list *taken)
{
	struct slab_list *from = &((struct slub *)cache->own)->nodes[node];
	uint64_t free_objects = 0;

	while (from->first && free_objects < wanted) {
		struct slab *slab = from->first;

		slab_list_remove(slab);
		slab_list_add(taken, slab, SLAB_HEAD);
		free_objects += cache->per_slab - slab->inuse;
	}
}

/* Takes up to `room` objects of a slab on no list; what is left lies in a partial slab. */
static uint64_t take_objects(struct model_cache *cache, struct slab *slab, struct slab **out,
			     uint64_t room, enum slab_end end)
{
	struct slub *slub = cache->own;
	uint64_t n = 0;

	for (; n < room && slab->inuse < cache->per_slab; n++) {
		slab->inuse++;
		out[n] = slab;
	}
	if (slab->inuse == cache->per_slab)
		slab_list_add(&slub->full, slab, SLAB_HEAD);
	else
		slab_list_add(&slub->nodes[slab->node], slab, end);
	return n;
}

uint64_t slub_take_objects(struct model_cache *cache, unsigned int node, struct slab **out,
			   uint64_t wanted)
{
	struct slab_list partials = {0};
	uint64_t n = 0;
	struct slab *slab;

	take_partials(cache, node, wanted, &partials);
	while ((slab = partials.first)) {
		slab_list_remove(slab);
		if (n < wanted)
			n += take_objects(cache, slab, out + n, wanted - n, SLAB_TAIL);
		else
			release_slab(cache, slab, SLAB_HEAD);
	}
	while (n < wanted && (slab = slab_create(cache, node)))
		n += take_objects(cache, slab, out + n, wanted - n, SLAB_HEAD);
	return n;
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
	slab->counted = cache->per_slab - slab->inuse;
	cpu->free_objects += slab->counted;
}

/* The next of a CPU's own partial slabs, or NULL. Objects that were freed since it came to the list
 * were not counted (page->pobjects of Linux 5.10). */
static struct slab *next_partial(struct slub_cpu *cpu, unsigned int node, struct model_cache *cache)
{
	struct slab *slab = cpu->partial.first;

	if (!slab)
		return NULL;
	slab_list_remove(slab);
	cpu->free_objects -= slab->counted;
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

static int alloc(struct model_cache *cache, const struct placement *where,
		 const struct object_shape *shape, uintptr_t *token)
{
	struct slub *slub = cache->own;
	struct slub_cpu *cpu;
	struct slab *slab;

	(void)shape;
	if (slub->sheaves && !where->has_no_sheaf) {
		slab = slub_sheaves_alloc(cache, where);
	} else if (!slub->has_slabs) {
		slab = slub_take_object(cache, where->node);
	} else {
		cpu = slab_part((void **)slub->cpus, where->cpu, sizeof(*cpu));
		if (!cpu)
			return -ENOMEM;
		slab = cpu->slab;
		if (!slab || slab->inuse == cache->per_slab || slab->node != where->node)
			slab = replace_slab(cache, cpu, where->node);
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

/* Without sheaves: objects of one slab are freed at once. */
static void free_objects(struct model_cache *cache, unsigned int cpu_number, struct slab *slab,
			 uint32_t n)
{
	struct slub *slub = cache->own;
	struct slub_cpu *cpu = slab_part((void **)slub->cpus, cpu_number, sizeof(*cpu));

	if (slab->frozen) {
		slab->inuse -= n;
	} else if (slub->has_slabs && slab->inuse == cache->per_slab && cpu) {
		slab->inuse -= n;
		note_first_free(cache, cpu, slab);
	} else {
		slub_give_objects(cache, slab, n);
	}
}

static void free_object(struct model_cache *cache, unsigned int cpu,
			const struct object_shape *shape, uintptr_t token)
{
	const struct slub *slub = cache->own;

	(void)shape;
	if (slub->sheaves)
		slub_sheaves_free(cache, cpu, (struct slab *)token);
	else
		free_objects(cache, cpu, (struct slab *)token, 1);
}

/* --- arrays ---------------------------------------------------------------------------------- */

static void give_or_free(struct slab *slab, uint32_t n, unsigned int cpu)
{
	const struct slub *slub = slab->cache->own;

	if (slub->sheaves)
		slub_give_objects(slab->cache, slab, n);
	else
		free_objects(slab->cache, cpu, slab, n);
}

/* What is in the slab of the last object, and is not far from it, goes with it: so does the
 * kernel's build_detached_freelist(). Returns how many are left. */
static size_t free_with_last(struct slab **slabs, size_t n, unsigned int cpu)
{
	enum { LOOK_AHEAD = 3 };
	struct slab *const slab = slabs[n - 1];
	unsigned int others = 0;
	size_t left = n - 1;

	for (size_t i = n - 1; i-- && others < LOOK_AHEAD;) {
		if (slabs[i] != slab) {
			others++;
			continue;
		}
		left--;
		slabs[i] = slabs[left];
		slabs[left] = slab;
	}
	give_or_free(slab, (uint32_t)(n - left), cpu);
	return left;
}

void slub_free_slabs(struct slab **slabs, size_t n, unsigned int cpu)
{
	while (n)
		n = free_with_last(slabs, n, cpu);
}

/* Whether an object of an array goes into a sheaf of its cache. */
static bool put_in_sheaf(struct slab *slab, unsigned int cpu, enum array_free how)
{
	struct model_cache *cache = slab->cache;
	const struct slub *slub = cache->own;

	if (!slub->sheaves || how == ARRAY_OF_ANY)
		return false;
	if (how == ARRAY_OF_CACHE)
		return slub_sheaves_take_back(cache, cpu, slab);
	slub_sheaves_free_rcu(cache, cpu, slab);
	return true;
}

static void free_array(const uintptr_t *tokens, size_t n, unsigned int cpu, enum array_free how)
{
	struct slab *slabs[ARRAY_MOST];
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		struct slab *slab = (struct slab *)tokens[i];

		if (!put_in_sheaf(slab, cpu, how))
			slabs[left++] = slab;
	}
	slub_free_slabs(slabs, left, cpu);
}

/* --- shrinking ------------------------------------------------------------------------------- */

/* CPUs give up their slabs. */
static void flush_cpus(struct model_cache *cache)
{
	const struct slub *slub = cache->own;

	for (unsigned int i = 0; i < cache->cpus; i++) {
		struct slub_cpu *cpu = slub->cpus[i];

		if (!cpu)
			continue;
		if (cpu->slab)
			release_slab(cache, cpu->slab, SLAB_HEAD);
		cpu->slab = NULL;
		drain_partial(cache, cpu);
	}
}

static void drop_empty_slabs(struct model_cache *cache, struct slab_list *list)
{
	struct slab *next;

	for (struct slab *slab = list->first; slab; slab = next) {
		next = slab->next;
		if (slab->inuse)
			continue;
		slab_list_remove(slab);
		slab_destroy(cache, slab);
	}
}

static void shrink(struct model_cache *cache)
{
	const struct slub *slub = cache->own;

	if (slub->sheaves)
		slub_sheaves_flush(cache);
	else
		flush_cpus(cache);
	for (unsigned int i = 0; i < cache->nodes; i++)
		drop_empty_slabs(cache, &slub->nodes[i]);
}

const struct allocator_ops slub_allocator = {
	.name = "SLUB",
	.slot_least = sizeof(void *),
	.cache_init = cache_init,
	.cache_deinit = cache_deinit,
	.alloc = alloc,
	.free = free_object,
	.free_array = free_array,
	.shrink = shrink,
	.free_later = slub_sheaves_free_later,
	.free_waiting = slub_sheaves_free_waiting,
	.prefill = slub_sheaves_prefill,
	.end_prefill = slub_sheaves_end_prefill,
};
