/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The sizes of SLUB's slabs and lists, as mm/slub.c computes them. */
#include "formats/allocators/slub.h"

enum {
	OBJECTS_MOST = 32767, /* the counter of a slab has 15 bits */
	WASTE_FIRST = 16,     /* a 16th of the slab may be left over at first */
};

static uint64_t objects_in(unsigned int order, uint64_t size)
{
	return ((uint64_t)MODEL_PAGE_SIZE << order) / size;
}

/* The first order from `from` to `most` that leaves no more over than a part of the slab. Beyond
 * `most`: there is none. */
static unsigned int frugal_order(uint64_t size, unsigned int from, unsigned int most,
				 unsigned int part)
{
	unsigned int order = from;

	while (order <= most && ((uint64_t)MODEL_PAGE_SIZE << order) % size >
					((uint64_t)MODEL_PAGE_SIZE << order) / part)
		order++;
	return order;
}

static uint64_t wanted_objects(const struct model_cache *cache)
{
	const unsigned int cpus = cache->cpus;

	if (cache->params.min_objects != MODEL_AUTO)
		return (uint64_t)cache->params.min_objects;
	return 4 * (32 - (uint64_t)__builtin_clz(cpus) + 1);
}

static unsigned int find_order(const struct model_cache *cache, unsigned int most)
{
	const bool relaxes = cache->model->order_relaxes;
	const unsigned int last_part = relaxes ? 4 : 2;
	uint64_t objects = wanted_objects(cache);

	if (objects > objects_in(most, cache->slot))
		objects = objects_in(most, cache->slot);
	for (; objects >= 1; objects--) {
		for (unsigned int part = WASTE_FIRST; part >= last_part; part /= 2) {
			const unsigned int from = order_of(objects * cache->slot);
			const unsigned int order = frugal_order(cache->slot, from, most, part);

			if (order <= most)
				return order;
		}
		if (!relaxes || objects == 2)
			break;
	}
	return order_of(cache->slot);
}

void slub_set_order(struct model_cache *cache)
{
	const struct cache_params *params = &cache->params;

	cache->order = params->order != MODEL_AUTO
			       ? (unsigned int)params->order
			       : find_order(cache, (unsigned int)params->order_max);
	if (cache->order < order_of(cache->slot))
		cache->order = order_of(cache->slot);
	cache->per_slab = objects_in(cache->order, cache->slot);
	if (cache->per_slab > OBJECTS_MOST)
		cache->per_slab = OBJECTS_MOST;
}

/* Objects that a CPU's partial list is meant for. */
static uint64_t partial_objects(const struct model_cache *cache)
{
	static const struct {
		uint64_t size, objects, old_objects;
	} rows[] = {{MODEL_PAGE_SIZE, 6, 2}, {1024, 24, 6}, {256, 52, 13}, {0, 120, 30}};
	size_t i = 0;

	if (cache->params.cpu_partial != MODEL_AUTO)
		return (uint64_t)cache->params.cpu_partial;
	while (cache->slot < rows[i].size)
		i++;
	return cache->model->partial_objects ? rows[i].old_objects : rows[i].objects;
}

static uint64_t log2_of(uint64_t value)
{
	return 63 - (uint64_t)__builtin_clzll(value | 1);
}

/* Objects of a sheaf: so many that it fills what kmalloc() gives for it. */
static uint64_t sheaf_objects(uint64_t slot)
{
	enum { HEAD = 32 }; /* bytes in front of a sheaf's pointers */
	const uint64_t wanted = slot >= MODEL_PAGE_SIZE ? 4
				: slot >= 1024          ? 12
				: slot >= 256           ? 26
							: 60;
	uint64_t bytes = 64;

	while (bytes < HEAD + 8 * wanted)
		bytes *= 2;
	return (bytes - HEAD) / 8;
}

struct slub_limits slub_limits_of(const struct model_cache *cache)
{
	const uint64_t objects = partial_objects(cache);
	struct slub_limits limits = {0};
	const uint64_t half_log = log2_of(cache->slot) / 2;

	limits.cpu_partial = objects;
	if (!cache->model->partial_objects)
		limits.cpu_partial = (2 * objects + cache->per_slab - 1) / cache->per_slab;
	limits.min_partial = half_log < 5 ? 5 : half_log > 10 ? 10 : half_log;
	if (cache->params.min_partial != MODEL_AUTO)
		limits.min_partial = (uint64_t)cache->params.min_partial;
	limits.sheaf = cache->params.sheaf == MODEL_AUTO ? sheaf_objects(cache->slot)
							 : (uint64_t)cache->params.sheaf;
	return limits;
}
