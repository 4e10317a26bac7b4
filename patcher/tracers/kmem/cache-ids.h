/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_CACHE_IDS_H
#define SONDE_PATCHER_TRACERS_KMEM_CACHE_IDS_H

#include <stdint.h>
#include "formats/base/error.h"
#include "formats/trace/writer.h"
#include "introspect/slab/slab.h"

/*
 * The slab caches seen so far, by the gva of their struct kmem_cache, so that a name is read
 * once per cache and not once per event. Thread-safe.
 */
struct cache_ids;

struct cache_info {
	uint64_t object_size, size; /* bytes */
	uint16_t id;                /* in the trace's cache table */
};

/* `slab` and `writer` must live as long. -ENOMEM. */
int cache_ids_create(struct slab_view *slab, struct trace_writer *writer, struct cache_ids **out,
		     struct error *err);
void cache_ids_destroy(struct cache_ids *ids);

/* Sizes and id of a cache; reads the guest the first time. */
int cache_ids_get(struct cache_ids *ids, uint64_t cache, struct cache_info *out, struct error *err);

/* The id alone, which does not need the guest once it is known. */
int cache_ids_find(struct cache_ids *ids, uint64_t cache, uint16_t *id);

/* The guest freed an object at this address: if it was a struct kmem_cache, it may become another.
 */
void cache_ids_forget(struct cache_ids *ids, uint64_t cache);

#endif
