/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_CACHE_TABLE_H
#define SONDE_FORMATS_TRACE_CACHE_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/trace/sidecar.h"
#include "formats/base/u64-map.h"

/* The slab caches of a trace, with ids from 1 on, in the order of first use. Thread-safe. */
struct cache_table {
	pthread_mutex_t lock;
	struct u64_map by_hash; /* to index in items */
	struct u64_map by_id;   /* likewise */
	struct sidecar_cache *items;
	size_t count, room;
	struct budget *budget;
	uint16_t last_id; /* the greatest */
};

/* An empty one; what it holds is freed by cache_table_deinit(). `budget`: for that, or NULL;
 * outlives it. */
void cache_table_init(struct cache_table *table, struct budget *budget);
void cache_table_deinit(struct cache_table *table);

/* The id of the cache with this name and size, added if new; 0 if there is no room or memory. The
 * size of its objects is the largest that was given: it grows when the guest merges another cache
 * into this one. */
uint16_t cache_table_id(struct cache_table *table, const char *name, uint64_t object_size,
			uint64_t size);

/*
 * Add a cache under the id that another trace gave it, unless the id is taken. cache_table_id()
 * does not find it. Returns 0 or -ENOMEM.
 */
int cache_table_adopt(struct cache_table *table, const struct sidecar_cache *cache);

/* Look up an id. The name lives as long as the table. */
bool cache_table_find(struct cache_table *table, uint16_t id, struct sidecar_cache *out);

/* A copy of all, to be freed; the table keeps the names. NULL without memory. */
struct sidecar_cache *cache_table_copy(struct cache_table *table, size_t *count);

#endif
