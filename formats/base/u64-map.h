/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_U64_MAP_H
#define SONDE_FORMATS_BASE_U64_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/budget.h"

/*
 * A hash table from 64-bit keys (addresses) to values of one fixed size, held by value: open
 * addressing, linear probing. Keys come from guests and trace files, so the hash is seeded.
 * Memory grows with the largest number of entries held at a time and is not given back before
 * deinit. Not thread-safe.
 */
struct u64_map {
	uint8_t *slots; /* capacity times {key, value} */
	uint8_t *tags;  /* of each slot: a byte of its key's hash; 0: it is free */
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

/* The value of key, or NULL. Valid, as every value pointer here, until the next insert or remove.
 */
void *u64_map_find(const struct u64_map *map, uint64_t key);

/* Have the processor load what a find of key will look at. */
void u64_map_prefetch(const struct u64_map *map, uint64_t key);

/* The value of key, inserted zeroed if new, which *is_new (may be NULL) says. NULL: no memory. */
void *u64_map_insert(struct u64_map *map, uint64_t key, bool *is_new);

/* Returns whether key was there. */
bool u64_map_remove(struct u64_map *map, uint64_t key);

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

#endif
