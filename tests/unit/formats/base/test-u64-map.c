/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "formats/base/u64-map.h"
#include "tests/lib/tap.h"

enum { KEYS = 512, STEPS = 200000 };

/* Sparse and with zero, dense pages, and equal low bits. */
static uint64_t key_of(unsigned int i)
{
	return i % 2 ? (uint64_t)i << 40 : 0xffff888000000000 * (i > 0) + i * 4096ull;
}

static bool agrees(const struct u64_map *map, const uint64_t *model)
{
	for (unsigned int i = 0; i < KEYS; i++) {
		const uint64_t *value = u64_map_find(map, key_of(i));

		if ((value ? *value : 0) != model[i])
			return false;
	}
	return true;
}

/* Random inserts and removes, against an array that needs no hashing. */
static void test_model(void)
{
	static uint64_t model[KEYS];
	unsigned int seed = 1, disagreements = 0;
	size_t count = 0;
	struct u64_map map;

	u64_map_init(&map, sizeof(uint64_t));
	for (unsigned int step = 1; step <= STEPS; step++) {
		unsigned int i = (unsigned int)rand_r(&seed) % KEYS;
		bool is_new, insert = (unsigned int)rand_r(&seed) % 2;

		if (insert) {
			uint64_t *value = u64_map_insert(&map, key_of(i), &is_new);

			disagreements += is_new != !model[i] || *value != model[i];
			count += is_new;
			*value = model[i] = step;
		} else {
			disagreements += u64_map_remove(&map, key_of(i)) != !!model[i];
			count -= !!model[i];
			model[i] = 0;
		}
		if (step % 1000 == 0)
			disagreements += !agrees(&map, model) || map.count != count;
	}
	is_u64(disagreements, 0, "inserts, finds and removes give what the model gives");
	ok(map.capacity <= 1024, "the table does not grow beyond the entries held");
	u64_map_deinit(&map);
}

/* A table that is larger than a cache, and has huge pages. */
static void test_large(void)
{
	enum { LARGE = 200000 };
	unsigned int wrong = 0;
	struct u64_map map;

	u64_map_init(&map, 5 * sizeof(uint64_t));
	for (uint64_t i = 1; i <= LARGE; i++)
		*(uint64_t *)u64_map_insert(&map, i * 64, NULL) = i;
	for (uint64_t i = 1; i <= LARGE; i++) {
		uint64_t *value;

		u64_map_prefetch(&map, i * 64);
		value = u64_map_find(&map, i * 64);
		wrong += !value || *value != i;
		if (value && i % 3 == 0)
			u64_map_remove_value(&map, value);
	}
	for (uint64_t i = 1; i <= LARGE; i++)
		wrong += !u64_map_find(&map, i * 64) != (i % 3 == 0);
	is_u64(wrong, 0, "a large table has what was inserted, and not removed");
	is_u64(map.count, LARGE - LARGE / 3, "and knows how much that is");
	u64_map_deinit(&map);
}

static void test_iteration(void)
{
	struct u64_map set;
	uint64_t sum = 0, key;
	size_t pos = 0, seen = 0, wrong = 0;

	u64_map_init(&set, 0);
	ok(!u64_map_find(&set, 1) && !u64_map_next(&set, &pos, &key), "an empty map has nothing");
	ok(!u64_map_remove(&set, 1), "an empty map has nothing to remove");
	for (uint64_t i = 0; i < 1000; i++)
		u64_map_insert(&set, i * i, NULL);
	for (pos = 0; u64_map_next(&set, &pos, &key); seen++)
		sum += key;
	is_u64(seen, 1000, "iteration visits each key");
	is_u64(sum, 332833500, "iteration visits each key once");
	for (uint64_t i = 0; i < 1000; i += 2)
		wrong += !u64_map_remove(&set, i * i) || u64_map_find(&set, i * i);
	for (uint64_t i = 1; i < 1000; i += 2)
		wrong += !u64_map_find(&set, i * i);
	ok(!wrong && set.count == 500, "keys without values are removed, and no others");
	u64_map_deinit(&set);
}

int main(void)
{
	test_model();
	test_large();
	test_iteration();
	return tap_done();
}
