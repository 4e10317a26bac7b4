/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/u64-map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { INITIAL_CAPACITY = 64 };

void u64_map_init(struct u64_map *map, size_t value_size)
{
	*map = (struct u64_map){.stride = sizeof(uint64_t) + (value_size + 7) / 8 * 8};
	/* Without entropy the map still works; it is only predictable. */
	if (getrandom(&map->seed, sizeof(map->seed), GRND_NONBLOCK) < 0)
		map->seed = 0;
}

void u64_map_deinit(struct u64_map *map)
{
	free(map->slots);
	free(map->tags);
	budget_give(map->budget, u64_map_memory(map));
	*map = (struct u64_map){.stride = map->stride, .seed = map->seed, .budget = map->budget};
}

void u64_map_set_budget(struct u64_map *map, struct budget *budget)
{
	map->budget = budget;
}

static uint64_t hash(const struct u64_map *map, uint64_t key)
{
	uint64_t h = (key ^ map->seed) * 0x9e3779b97f4a7c15;

	h = (h ^ (h >> 32)) * (map->seed | 1);
	return h ^ (h >> 29);
}

static size_t home(const struct u64_map *map, uint64_t key)
{
	return (size_t)hash(map, key) & (map->capacity - 1);
}

/* A byte of the hash that says nothing of the home of a key; never 0. */
static uint8_t tag(uint64_t hash)
{
	return (uint8_t)(hash >> 57 | 0x80);
}

static uint8_t *slot(const struct u64_map *map, size_t i)
{
	return map->slots + i * map->stride;
}

static uint64_t slot_key(const struct u64_map *map, size_t i)
{
	uint64_t key;

	memcpy(&key, slot(map, i), sizeof(key));
	return key;
}

/* The slot that holds key, or else the free one where it belongs. Slots with other tags are not
 * looked at: in a large map, each costs a miss of the cache. */
static size_t locate(const struct u64_map *map, uint64_t key)
{
	const uint64_t h = hash(map, key);
	size_t i = (size_t)h & (map->capacity - 1);

	while (map->tags[i] && (map->tags[i] != tag(h) || slot_key(map, i) != key))
		i = (i + 1) & (map->capacity - 1);
	return i;
}

void u64_map_prefetch(const struct u64_map *map, uint64_t key)
{
	enum { CACHE_LINE = 64 };
	const uint8_t *at;
	size_t i;

	if (!map->capacity)
		return;
	i = home(map, key);
	at = slot(map, i);
	__builtin_prefetch(&map->tags[i]);
	__builtin_prefetch(at);
	__builtin_prefetch(at + (map->stride < CACHE_LINE ? map->stride : CACHE_LINE) - 1);
}

void *u64_map_find(const struct u64_map *map, uint64_t key)
{
	size_t i;

	if (!map->count)
		return NULL;
	i = locate(map, key);
	return map->tags[i] ? slot(map, i) + sizeof(key) : NULL;
}

static bool grow(struct u64_map *map)
{
	struct u64_map bigger = *map;

	bigger.capacity = map->capacity ? map->capacity * 2 : INITIAL_CAPACITY;
	if (!budget_take(map->budget, u64_map_memory(&bigger)))
		return false;
	bigger.slots = reallocarray(NULL, bigger.capacity, bigger.stride);
	bigger.tags = calloc(bigger.capacity, 1);
	if (!bigger.slots || !bigger.tags) {
		budget_give(map->budget, u64_map_memory(&bigger));
		free(bigger.slots);
		free(bigger.tags);
		return false;
	}
	for (size_t i = 0; i < map->capacity; i++) {
		size_t to;

		if (!map->tags[i])
			continue;
		to = locate(&bigger, slot_key(map, i));
		bigger.tags[to] = map->tags[i];
		memcpy(slot(&bigger, to), slot(map, i), map->stride);
	}
	free(map->slots);
	free(map->tags);
	budget_give(map->budget, u64_map_memory(map));
	*map = bigger;
	return true;
}

void *u64_map_insert(struct u64_map *map, uint64_t key, bool *is_new)
{
	void *value = u64_map_find(map, key);
	size_t i;

	if (is_new)
		*is_new = !value;
	if (value)
		return value;
	if (map->count + 1 > map->capacity / 4 * 3 && !grow(map))
		return NULL;
	i = locate(map, key);
	map->tags[i] = tag(hash(map, key));
	map->count++;
	memset(slot(map, i), 0, map->stride);
	memcpy(slot(map, i), &key, sizeof(key));
	return slot(map, i) + sizeof(key);
}

bool u64_map_remove(struct u64_map *map, uint64_t key)
{
	size_t mask = map->capacity - 1;
	size_t hole, i;

	if (!map->count)
		return false;
	hole = locate(map, key);
	if (!map->tags[hole])
		return false;
	/* Close the gap, so that probing needs no tombstones. */
	for (i = (hole + 1) & mask; map->tags[i]; i = (i + 1) & mask) {
		size_t from_home = (i - home(map, slot_key(map, i))) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		memcpy(slot(map, hole), slot(map, i), map->stride);
		map->tags[hole] = map->tags[i];
		hole = i;
	}
	map->tags[hole] = 0;
	map->count--;
	return true;
}

void *u64_map_next(const struct u64_map *map, size_t *pos, uint64_t *key)
{
	while (*pos < map->capacity) {
		size_t i = (*pos)++;

		if (!map->tags[i])
			continue;
		*key = slot_key(map, i);
		return slot(map, i) + sizeof(*key);
	}
	return NULL;
}

size_t u64_map_memory(const struct u64_map *map)
{
	return map->capacity * (map->stride + sizeof(*map->tags));
}
