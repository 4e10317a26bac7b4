/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_U64_MAP_H
#define SONDE_FORMATS_BASE_U64_MAP_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "formats/base/budget.h"

/*
 * A hash table from 64-bit keys (addresses) to values of one fixed size, held by value: open
 * addressing, linear probing. Keys come from guests and trace files, so the hash is seeded.
 * Memory grows with the largest number of entries held at a time and is not given back before
 * deinit. Not thread-safe.
 */
struct u64_map {
	uint8_t *slots; /* capacity times {key, value} */
	uint8_t *tags;  /* of each slot: a byte of its key's hash; 0: it is free. The first ones
			   once more at the end, so that U64_MAP_TAGS can be read anywhere */
	size_t stride;
	size_t count;
	size_t capacity; /* 0 or a power of two */
	uint64_t seed;
	struct budget *budget; /* or NULL */
};

/* An empty map of values of value_size bytes (may be 0: a set). Allocates nothing. */
void u64_map_init(struct u64_map *map, size_t value_size);
void u64_map_deinit(struct u64_map *map);

/* Its memory comes out of this budget, which must outlive the map. While it is empty. */
void u64_map_set_budget(struct u64_map *map, struct budget *budget);

static inline uint64_t u64_map_hash(const struct u64_map *map, uint64_t key)
{
	uint64_t h = (key ^ map->seed) * 0x9e3779b97f4a7c15;

	h = (h ^ (h >> 32)) * (map->seed | 1);
	return h ^ (h >> 29);
}

/* A byte of the hash that says nothing of the home of a key; never 0. */
static inline uint8_t u64_map_tag(uint64_t hash)
{
	return (uint8_t)(hash >> 57 | 0x80);
}

enum { U64_MAP_TAGS = sizeof(uint64_t) /* are looked at in one go */ };

/* Of the tags from slot i on, a bit in the byte of each that is `tag` or free; the lowest ones come
 * first. Above the first one there may be others of used slots. */
static inline uint64_t u64_map_candidates(const struct u64_map *map, size_t i, uint8_t tag)
{
	const uint64_t low = UINT64_C(0x0101010101010101), high = low << 7;
	uint64_t word, differ;

	memcpy(&word, map->tags + i, sizeof(word));
	word = le64toh(word);
	differ = word ^ tag * low;
	return (((differ - low) & ~differ) | ~word) & high;
}

static inline size_t u64_map_first(size_t i, uint64_t candidates)
{
	return i + (size_t)__builtin_ctzll(candidates) / 8;
}

/* The slot that holds key, or else the free one where it belongs. Slots with other tags are not
 * looked at: in a large map, each costs a miss of the cache. Not of a map without slots. */
static inline size_t u64_map_locate(const struct u64_map *map, uint64_t key, uint64_t hash)
{
	const size_t mask = map->capacity - 1;
	const uint8_t tag = u64_map_tag(hash);

	for (size_t i = (size_t)hash & mask;; i = (i + U64_MAP_TAGS) & mask) {
		uint64_t candidates = u64_map_candidates(map, i, tag);

		for (; candidates; candidates &= candidates - 1) {
			const size_t at = u64_map_first(i, candidates) & mask;
			uint64_t found;

			if (!map->tags[at])
				return at;
			memcpy(&found, map->slots + at * map->stride, sizeof(found));
			if (found == key)
				return at;
		}
	}
}

/* The value of key, or NULL. Valid, as every value pointer here, until the next insert or remove.
 */
static inline void *u64_map_find(const struct u64_map *map, uint64_t key)
{
	size_t i;

	if (!map->count)
		return NULL;
	i = u64_map_locate(map, key, u64_map_hash(map, key));
	return map->tags[i] ? map->slots + i * map->stride + sizeof(key) : NULL;
}

/* GCC 12 takes a function that only prefetches for one without effects, and drops its calls. */
static inline void u64_map_load_soon(const void *at)
{
	__builtin_prefetch(at);
	__asm__ volatile("");
}

enum {
	U64_MAP_LINE = 64,          /* bytes that are loaded at a time */
	U64_MAP_CACHED = 256 << 10, /* bytes of a table that is in the processor's cache anyway */
};

/* Have the processor load what a find of key will look at: mostly, it is not far from home. What
 * is behind the table's end does no harm. */
static inline void u64_map_prefetch(const struct u64_map *map, uint64_t key)
{
	const uint8_t *at;
	size_t i;

	if (map->capacity * map->stride <= U64_MAP_CACHED)
		return;
	i = (size_t)u64_map_hash(map, key) & (map->capacity - 1);
	at = map->slots + i * map->stride;
	u64_map_load_soon(&map->tags[i]);
	u64_map_load_soon(at);
	u64_map_load_soon(at + U64_MAP_LINE);
	u64_map_load_soon(at + 2 * U64_MAP_LINE);
}

/* For u64_map_insert(): the value of a key that is not there, and that belongs into slot i, zeroed.
 * NULL: no memory. */
void *u64_map_add(struct u64_map *map, uint64_t key, uint64_t hash, size_t i);

/* The value of key, inserted zeroed if new, which *is_new (may be NULL) says. NULL: no memory. */
static inline void *u64_map_insert(struct u64_map *map, uint64_t key, bool *is_new)
{
	const uint64_t hash = u64_map_hash(map, key);
	const size_t i = map->capacity ? u64_map_locate(map, key, hash) : 0;
	const bool is_there = map->capacity && map->tags[i];

	if (is_new)
		*is_new = !is_there;
	return is_there ? map->slots + i * map->stride + sizeof(key)
			: u64_map_add(map, key, hash, i);
}

/* Returns whether key was there. */
bool u64_map_remove(struct u64_map *map, uint64_t key);
/* The same for a value of the map that was found. */
void u64_map_remove_value(struct u64_map *map, const void *value);

/*
 * An array for lookups in no order, as those of a map are, to be freed, not zeroed: a large one is
 * in huge pages, as far as there are any. Otherwise, lookups would mostly miss the TLB. It begins
 * at a line of the processor's cache. NULL: no memory, or too large.
 */
void *u64_map_array(size_t n, size_t size);

/* Bytes of memory it holds. */
size_t u64_map_memory(const struct u64_map *map);

/*
 * Iterate in no particular order: start with *pos = 0; each call yields a value and its key, NULL
 * at the end. The map must not change meanwhile.
 */
void *u64_map_next(const struct u64_map *map, size_t *pos, uint64_t *key);

/*
 * Of n numbers in ascending order, how many are at most `key`. The last of these, if any, has
 * the index before the result. value(arg, i) is number i, 0 <= i < n.
 */
static inline size_t search_above(size_t n, uint64_t key,
				  uint64_t (*value)(const void *arg, size_t i), const void *arg)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (value(arg, middle) <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The same of how many are below `key`: the index of the first that is not, or n. */
static inline size_t search_from(size_t n, uint64_t key,
				 uint64_t (*value)(const void *arg, size_t i), const void *arg)
{
	return key ? search_above(n, key - 1, value, arg) : 0;
}

#endif
