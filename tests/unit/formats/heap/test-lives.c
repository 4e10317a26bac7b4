/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include "formats/heap/internal.h"
#include "tests/lib/tap.h"

enum { PLACES = 512, STEPS = 200000 };

/* Sparse and with zero, dense pages, and equal low bits. */
static uint64_t address_of(unsigned int i)
{
	return i % 2 ? (uint64_t)i << 40 : 0xffff888000000000 * (i > 0) + i * 4096ull;
}

static struct lives make(void)
{
	struct lives lives;

	if (lives_init(&lives))
		abort();
	return lives;
}

static bool agrees(const struct lives *lives, const uint64_t *model)
{
	uint64_t sum = 0, wanted = 0, ptr;
	const struct heap_object *object;
	size_t pos = 0;

	for (unsigned int i = 0; i < PLACES; i++) {
		object = lives_find(lives, address_of(i));
		if ((object ? object->bytes : 0) != model[i])
			return false;
		wanted += model[i];
	}
	while ((object = lives_next(lives, &pos, &ptr)))
		sum += object->bytes;
	return sum == wanted;
}

static void insert(struct lives *lives, uint64_t ptr, uint64_t bytes, bool *is_new)
{
	struct heap_object *object = lives_insert(lives, ptr, is_new);

	if (!object)
		abort();
	*object = (struct heap_object){.bytes = bytes};
}

/* Random inserts and removes, against an array that needs no hashing. */
static void test_model(void)
{
	static uint64_t model[PLACES];
	unsigned int seed = 1, disagreements = 0;
	struct lives lives = make();

	for (unsigned int step = 1; step <= STEPS; step++) {
		const unsigned int i = (unsigned int)rand_r(&seed) % PLACES;
		const struct heap_object *object = lives_find(&lives, address_of(i));
		bool is_new = false;

		if ((unsigned int)rand_r(&seed) % 2) {
			insert(&lives, address_of(i), step, &is_new);
			disagreements += is_new != !object;
			model[i] = step;
		} else if (object) {
			lives_remove(&lives, object);
			model[i] = 0;
		}
		if (step % 1000 == 0)
			disagreements += !agrees(&lives, model);
	}
	is_u64(disagreements, 0, "inserts, finds and removes give what the model gives");
	ok(lives.room <= 1024, "the table does not grow beyond the objects held at a time");
	lives_deinit(&lives);
}

/* A table that is larger than a cache, and has huge pages. */
static void test_large(void)
{
	enum { LARGE = 200000 };
	struct lives lives = make();
	unsigned int wrong = 0;

	for (uint64_t i = 1; i <= LARGE; i++)
		insert(&lives, i * 64, i, NULL);
	for (uint64_t i = 1; i <= LARGE; i++) {
		const struct heap_object *object;

		lives_prefetch(&lives, i * 64);
		object = lives_find(&lives, i * 64);
		wrong += !object || object->bytes != i;
		if (object && i % 3 == 0)
			lives_remove(&lives, object);
	}
	for (uint64_t i = 1; i <= LARGE; i++)
		wrong += !lives_find(&lives, i * 64) != (i % 3 == 0);
	is_u64(wrong, 0, "a large table has what was inserted, and not removed");
	ok((uintptr_t)lives.all % 64 == 0 && sizeof(*lives.all) == 64,
	   "an object and its address are in one line of the cache");
	lives_deinit(&lives);
}

static void test_empty(void)
{
	struct lives lives = make();
	size_t pos = 0;
	uint64_t ptr;

	ok(!lives_find(&lives, 0) && !lives_next(&lives, &pos, &ptr), "at first nothing is live");
	lives_deinit(&lives);
}

int main(void)
{
	test_model();
	test_large();
	test_empty();
	return tap_done();
}
