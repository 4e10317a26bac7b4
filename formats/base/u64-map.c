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

static size_t home(const struct u64_map *map, uint64_t key)
{
	return (size_t)u64_map_hash(map, key) & (map->capacity - 1);
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
		uint64_t key;
		size_t to;

		if (!map->tags[i])
			continue;
		key = slot_key(map, i);
		to = u64_map_locate(&bigger, key, u64_map_hash(&bigger, key));
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
	const uint64_t hash = u64_map_hash(map, key);
	size_t i = map->capacity ? u64_map_locate(map, key, hash) : 0;
	const bool is_there = map->capacity && map->tags[i];

	if (is_new)
		*is_new = !is_there;
	if (is_there)
		return slot(map, i) + sizeof(key);
	if (map->count + 1 > map->capacity / 4 * 3) {
		if (!grow(map))
			return NULL;
		i = u64_map_locate(map, key, hash);
	}
	map->tags[i] = u64_map_tag(hash);
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
	hole = u64_map_locate(map, key, u64_map_hash(map, key));
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
