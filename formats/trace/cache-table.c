/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/cache-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CACHES = UINT16_MAX };

void cache_table_init(struct cache_table *table, struct budget *budget)
{
	*table = (struct cache_table){.budget = budget};
	pthread_mutex_init(&table->lock, NULL);
	u64_map_init(&table->by_hash, sizeof(size_t));
	u64_map_init(&table->by_id, sizeof(size_t));
	u64_map_set_budget(&table->by_hash, budget);
	u64_map_set_budget(&table->by_id, budget);
}

void cache_table_deinit(struct cache_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		budget_free_text(table->budget, table->items[i].name);
	budget_free(table->budget, table->items, table->room * sizeof(*table->items));
	u64_map_deinit(&table->by_hash);
	u64_map_deinit(&table->by_id);
	pthread_mutex_destroy(&table->lock);
}

/* FNV-1a. */
static uint64_t hash_cache(const char *name, uint64_t size)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	return (hash ^ size) * 0x100000001b3;
}

/* Append the cache under its id, which must be new. Returns 0 or -ENOMEM. */
static int add(struct cache_table *table, const struct sidecar_cache *cache)
{
	size_t *index;
	char *copy;

	if (!budget_grow(table->budget, &table->items, sizeof(*table->items), table->count,
			 &table->room))
		return -ENOMEM;
	copy = budget_strdup(table->budget, cache->name);
	index = copy ? u64_map_insert(&table->by_id, cache->id, NULL) : NULL;
	if (!index) {
		budget_free_text(table->budget, copy);
		return -ENOMEM;
	}
	*index = table->count;
	table->items[table->count] = *cache;
	table->items[table->count++].name = copy;
	if (cache->id > table->last_id)
		table->last_id = cache->id;
	return 0;
}

/* The size of its objects is no part of it: that grows when SLUB merges another cache into it. */
static bool same(const struct sidecar_cache *a, const struct sidecar_cache *b)
{
	return a->size == b->size && !strcmp(a->name, b->name);
}

/* The place of an equal cache in by_hash, or else a new one (NULL: no memory). */
static size_t *locate(struct cache_table *table, const struct sidecar_cache *cache, uint64_t *key,
		      bool *is_new)
{
	size_t *index;

	/* Of two caches with one hash the second takes the next key. */
	*key = hash_cache(cache->name, cache->size);
	for (;; ++*key) {
		index = u64_map_insert(&table->by_hash, *key, is_new);
		if (!index || *is_new || same(&table->items[*index], cache))
			return index;
	}
}

/* Returns the id. */
static uint16_t grow(struct sidecar_cache *known, uint64_t object_size)
{
	if (known->object_size < object_size)
		known->object_size = object_size;
	return known->id;
}

/* Returns the id, or 0. */
static uint16_t find_or_add(struct cache_table *table, struct sidecar_cache *cache)
{
	bool is_new;
	uint64_t key;
	size_t *index = locate(table, cache, &key, &is_new);

	if (!index)
		return 0;
	if (!is_new)
		return grow(&table->items[*index], cache->object_size);
	*index = table->count;
	if (table->last_id == MAX_CACHES || add(table, cache)) {
		u64_map_remove(&table->by_hash, key);
		return 0;
	}
	return cache->id;
}

uint16_t cache_table_id(struct cache_table *table, const char *name, uint64_t object_size,
			uint64_t size)
{
	uint16_t id;

	pthread_mutex_lock(&table->lock);
	id = find_or_add(table, &(struct sidecar_cache){.id = (uint16_t)(table->last_id + 1),
							.name = (char *)(uintptr_t)name,
							.object_size = object_size,
							.size = size});
	pthread_mutex_unlock(&table->lock);
	return id;
}

int cache_table_adopt(struct cache_table *table, const struct sidecar_cache *cache)
{
	int ret = 0;

	pthread_mutex_lock(&table->lock);
	if (!u64_map_find(&table->by_id, cache->id))
		ret = add(table, cache);
	pthread_mutex_unlock(&table->lock);
	return ret;
}

bool cache_table_find(struct cache_table *table, uint16_t id, struct sidecar_cache *out)
{
	const size_t *index;

	pthread_mutex_lock(&table->lock);
	index = u64_map_find(&table->by_id, id);
	if (index)
		*out = table->items[*index];
	pthread_mutex_unlock(&table->lock);
	return index;
}

struct sidecar_cache *cache_table_copy(struct cache_table *table, size_t *count)
{
	struct sidecar_cache *copy;

	pthread_mutex_lock(&table->lock);
	*count = table->count;
	copy = calloc(table->count + 1, sizeof(*copy));
	if (copy && table->count)
		memcpy(copy, table->items, table->count * sizeof(*copy));
	pthread_mutex_unlock(&table->lock);
	return copy;
}
