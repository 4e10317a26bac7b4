/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CACHE_TABLE_H
#define SONDE_FORMATS_CACHE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include "formats/sidecar.h"
#include "formats/u64-map.h"

/* Numbers the slab caches that a trace names: ids from 1, in the order of first use. */
struct cache_table {
	struct u64_map by_hash; /* to index in items */
	struct sidecar_cache *items;
	size_t count;
};

void cache_table_init(struct cache_table *table);
void cache_table_deinit(struct cache_table *table);

/* The id of the cache with these three values, added if new; 0 if there is no room or memory. */
uint16_t cache_table_id(struct cache_table *table, const char *name, uint64_t object_size,
			uint64_t size);

#endif
