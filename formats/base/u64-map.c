/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/u64-map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

enum { INITIAL_CAPACITY = 64, LINE = 64, HUGE_PAGE = 2 << 20 };

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

static void set_tag(struct u64_map *map, size_t i, uint8_t tag)
{
	map->tags[i] = tag;
	if (i < U64_MAP_TAGS)
		map->tags[map->capacity + i] = tag;
}

void *u64_map_array(size_t n, size_t size)
{
	size_t bytes;
	void *array;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
		return NULL;
	if (bytes < HUGE_PAGE)
		return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
	bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	array = aligned_alloc(HUGE_PAGE, bytes);
	if (array)
		madvise(array, bytes, MADV_HUGEPAGE);
	return array;
}

static bool grow(struct u64_map *map)
{
	struct u64_map bigger = *map;

	bigger.capacity = map->capacity ? map->capacity * 2 : INITIAL_CAPACITY;
	if (!budget_take(map->budget, u64_map_memory(&bigger)))
		return false;
	bigger.slots = u64_map_array(bigger.capacity, bigger.stride);
	bigger.tags = calloc(bigger.capacity + U64_MAP_TAGS, 1);
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
		set_tag(&bigger, to, map->tags[i]);
		memcpy(slot(&bigger, to), slot(map, i), map->stride);
	}
	free(map->slots);
	free(map->tags);
	budget_give(map->budget, u64_map_memory(map));
	*map = bigger;
	return true;
}

void *u64_map_add(struct u64_map *map, uint64_t key, uint64_t hash, size_t i)
{
	uint8_t *at;

	if (map->count + 1 > map->capacity / 4 * 3) {
		if (!grow(map))
			return NULL;
		i = u64_map_locate(map, key, hash);
	}
	set_tag(map, i, u64_map_tag(hash));
	map->count++;
	at = slot(map, i);
	memcpy(at, &key, sizeof(key));
	/* In words: there are few, and memset() costs more. */
	for (size_t used = sizeof(key); used < map->stride; used += sizeof(uint64_t))
		memcpy(at + used, &(uint64_t){0}, sizeof(uint64_t));
	return at + sizeof(key);
}

void u64_map_remove_value(struct u64_map *map, const void *value)
{
	const size_t mask = map->capacity - 1;
	const uint8_t *const key = (const uint8_t *)value - sizeof(uint64_t);
	size_t hole = (size_t)(key - map->slots) / map->stride;

	/* Close the gap, so that probing needs no tombstones. */
	for (size_t i = (hole + 1) & mask; map->tags[i]; i = (i + 1) & mask) {
		size_t from_home = (i - home(map, slot_key(map, i))) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		memcpy(slot(map, hole), slot(map, i), map->stride);
		set_tag(map, hole, map->tags[i]);
		hole = i;
	}
	set_tag(map, hole, 0);
	map->count--;
}

bool u64_map_remove(struct u64_map *map, uint64_t key)
{
	const void *value = u64_map_find(map, key);

	if (value)
		u64_map_remove_value(map, value);
	return value;
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
	if (!map->capacity)
		return 0;
	return map->capacity * (map->stride + sizeof(*map->tags)) + U64_MAP_TAGS;
}
