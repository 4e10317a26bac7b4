/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_SIMULATION_H
#define SONDE_FORMATS_ALLOCATORS_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/allocators/allocator.h"

/*
 * A guest's allocations and frees, run through a model. It counts what the model's caches hold.
 * Memory grows with live objects and the model's slabs.
 */
struct simulation;

/* What the guest asked for. */
struct allocation {
	uint64_t ptr;         /* as the guest got it; identifies the object */
	const char *cache;    /* its name in the guest; "": unknown */
	uint64_t object_size; /* of the guest's cache, bytes; 0: unknown */
	uint64_t taken;       /* bytes that the object took in the guest */
	uint64_t requested;
	uint64_t call_site;
	const char *buckets; /* that its call site uses, if there are any (buckets.c); or NULL */
	int32_t node;        /* asked for; -1: any */
	unsigned int cpu;
	bool in_array; /* as in struct placement; likewise: */
	bool has_no_sheaf, makes_no_sheaf;
	unsigned int prefilled;
	bool is_kmalloc; /* else of a cache */
	bool is_large;   /* kmalloc() that got pages */
};

/* `cpus` are those of the guest, used where the model does not say. -ENOMEM. */
int simulation_create(const struct model *model, unsigned int cpus, struct simulation **out,
		      struct error *err);
/* NULL-safe. */
void simulation_destroy(struct simulation *simulation);

/*
 * Before what happens on a CPU at `ns` of the trace clock, from 0 on: whether its timer runs. It
 * does not wake the CPU, so it runs when something else happens there.
 */
bool simulation_is_due(struct simulation *simulation, unsigned int cpu, int64_t ns);
void simulation_run_timer(struct simulation *simulation, unsigned int cpu, int64_t ns);
/* The first allocation to come is the guest's first one. */
void simulation_from_start(struct simulation *simulation);
/* The guest has a timer of the same kind, and simulation_drained() says what it gives back. */
void simulation_follow_timer(struct simulation *simulation);
/* That timer ran on a CPU, and gave back a slab of the cache of this name. */
void simulation_drained(struct simulation *simulation, const char *cache, unsigned int cpu,
			int64_t ns);
/* It looks at the cache of this name in the model, at the CPU's part or, if it does so a second
 * time, at the node's. From then on the model has no timer of its own. */
void simulation_look(struct simulation *simulation, const char *cache, unsigned int cpu);
/* An object whose address is live already takes its place. 0 or -ENOMEM. */
int simulation_alloc(struct simulation *simulation, const struct allocation *allocation);
/* Frees of unknown objects do nothing. */
void simulation_free(struct simulation *simulation, uint64_t ptr, unsigned int cpu);
/* At once; at most ARRAY_MOST of them. */
void simulation_free_array(struct simulation *simulation, const uint64_t *ptrs, size_t n,
			   unsigned int cpu, enum array_free how);
/* kfree_rcu() is called for an object; simulation_free() follows after the grace period. */
void simulation_free_later(struct simulation *simulation, uint64_t ptr, unsigned int cpu);
/* A task has a sheaf filled with at least so many objects, before it allocates them, and gives back
 * what is left. Who does so in a trace that does not say it is found by struct allocation. */
void simulation_prefill(struct simulation *simulation, unsigned int cpu, uint64_t task,
			uint64_t objects);
void simulation_end_prefill(struct simulation *simulation, unsigned int cpu, uint64_t task);
/* kmem_cache_shrink() of the cache of this name in the model. */
void simulation_shrink(struct simulation *simulation, const char *cache);

/* All caches; `pages` of large blocks, too. */
uint64_t simulation_pages(const struct simulation *simulation);
size_t simulation_nr_caches(const struct simulation *simulation);
const struct model_cache *simulation_cache(const struct simulation *simulation, size_t i);
/* That of blocks that kmalloc() gets from the page allocator. */
bool simulation_is_large(const struct model_cache *cache);
unsigned int simulation_cpus(const struct simulation *simulation);

#endif
