/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cache-table.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CACHES = UINT16_MAX };

void cache_table_init(struct cache_table *table)
{
	*table = (struct cache_table){0};
	u64_map_init(&table->by_hash, sizeof(size_t));
}

void cache_table_deinit(struct cache_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->items[i].name);
	free(table->items);
	u64_map_deinit(&table->by_hash);
}

/* FNV-1a. */
static uint64_t hash_cache(const char *name, uint64_t object_size, uint64_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	hash = (hash ^ object_size) * 0x100000001b3;
	return (hash ^ size) * 0x100000001b3;
}

static uint16_t add(struct cache_table *table, const char *name, uint64_t object_size,
		    uint64_t size)
{
	size_t n = table->count;
	struct sidecar_cache *bigger;
	char *copy;

	if (n == MAX_CACHES)
		return 0;
	bigger = reallocarray(table->items, n + 1, sizeof(*bigger));
	if (!bigger)
		return 0;
	table->items = bigger;
	copy = strdup(name);
	if (!copy)
		return 0;
	bigger[n] = (struct sidecar_cache){(uint16_t)(n + 1), copy, object_size, size};
	table->count++;
	return (uint16_t)(n + 1);
}

uint16_t cache_table_id(struct cache_table *table, const char *name, uint64_t object_size,
			uint64_t size)
{
	/* Of two caches with one hash the second takes the next key. */
	for (uint64_t key = hash_cache(name, object_size, size);; key++) {
		bool is_new;
		size_t *index = u64_map_insert(&table->by_hash, key, &is_new);
		const struct sidecar_cache *cache;
		uint16_t id;

		if (!index)
			return 0;
		if (is_new) {
			*index = table->count;
			id = add(table, name, object_size, size);
			if (!id)
				u64_map_remove(&table->by_hash, key);
			return id;
		}
		cache = &table->items[*index];
		if (cache->object_size == object_size && cache->size == size &&
		    !strcmp(cache->name, name))
			return cache->id;
	}
}
