/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_SIMULATE_H
#define SONDE_TESTS_LIB_SIMULATE_H

#include <stdlib.h>
#include <string.h>
#include "formats/allocators/simulation.h"

/* Models at work, for tests of what they hold. */

/* A model, by text; and a simulation of it. */
static inline struct simulation *make(const char *text, unsigned int cpus)
{
	struct simulation *simulation;
	struct model model;

	if (model_parse("m", text, strlen(text), &model, NULL) ||
	    simulation_create(&model, cpus, &simulation, NULL))
		abort();
	return simulation;
}

static inline void alloc_from(struct simulation *simulation, uint64_t ptr, const char *cache,
			      uint64_t size, unsigned int cpu)
{
	const struct allocation allocation = {.ptr = ptr,
					      .cache = cache,
					      .object_size = size,
					      .taken = size,
					      .requested = size,
					      .node = -1,
					      .cpu = cpu};

	if (simulation_alloc(simulation, &allocation))
		abort();
}

static inline void kmalloc_at(struct simulation *simulation, uint64_t ptr, const char *cache,
			      uint64_t size, uint64_t call_site)
{
	const struct allocation allocation = {.ptr = ptr,
					      .cache = cache,
					      .taken = size,
					      .requested = size,
					      .call_site = call_site,
					      .node = -1,
					      .is_kmalloc = true};

	if (simulation_alloc(simulation, &allocation))
		abort();
}

/* n objects of 1 KiB, 4 to a slab of one page, at addresses from `from` on. */
static inline void fill(struct simulation *simulation, uint64_t from, uint64_t n, unsigned int cpu)
{
	for (uint64_t i = 0; i < n; i++)
		alloc_from(simulation, from + i, "c", 1024, cpu);
}

static inline void drop(struct simulation *simulation, uint64_t from, uint64_t n, uint64_t step,
			unsigned int cpu)
{
	for (uint64_t i = 0; i < n; i++)
		simulation_free(simulation, from + i * step, cpu);
}

static inline const struct model_cache *find(const struct simulation *simulation, const char *name)
{
	for (size_t i = 0; i < simulation_nr_caches(simulation); i++) {
		if (!strcmp(simulation_cache(simulation, i)->name, name))
			return simulation_cache(simulation, i);
	}
	return NULL;
}

#endif
