/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"
#include "tests/lib/tap.h"

enum { MOST = 1000, ROUNDS = 20000, THREADS = 4 };

static void test_bound(void)
{
	struct budget budget;

	budget_init(&budget, MOST);
	ok(budget_take(&budget, MOST), "all of a budget can be taken");
	ok(!budget_take(&budget, 1), "nothing more");
	ok(!budget_take(&budget, SIZE_MAX), "no sum wraps");
	is_u64(budget.refused, 2, "what is refused is counted");
	budget_give(&budget, 10);
	ok(budget_take(&budget, 10) && !budget_take(&budget, 1), "what is given back can be taken");
	ok(budget_take(NULL, SIZE_MAX), "without a budget there is no bound");
	budget_give(NULL, 1);
}

static void test_memory(void)
{
	struct budget budget;
	char *text, *more, *copy;

	budget_init(&budget, MOST);
	text = budget_malloc(&budget, 100);
	strcpy(text, "text");
	more = budget_realloc(&budget, text, 100, 600);
	ok(more && !strcmp(more, "text"), "memory grows within the budget");
	is_u64(budget.used, 600, "and is counted once");
	ok(!budget_realloc(&budget, more, 600, 900) && !strcmp(more, "text"),
	   "what does not fit leaves the old memory alone");
	copy = budget_strdup(&budget, "hello");
	ok(copy && !strcmp(copy, "hello") && budget.used == 606, "a text takes its bytes");
	budget_free_text(&budget, copy);
	budget_free_text(&budget, NULL);
	budget_free(&budget, more, 600);
	budget_free(&budget, NULL, 600);
	is_u64(budget.used, 0, "all is given back");
}

static void test_grow(void)
{
	struct budget budget;
	uint64_t *items = NULL;
	size_t n = 0, room = 0;

	budget_init(&budget, MOST * 4);
	while (budget_grow(&budget, &items, sizeof(*items), n, &room)) {
		items[n] = n;
		n++;
	}
	ok(n && n == room, "an array grows until its budget is used up: %zu items", n);
	for (size_t i = 0; i < n; i++)
		room -= items[i] == i;
	is_u64(room, 0, "an array that cannot grow keeps its items");
	is_u64(budget.used, n * sizeof(*items), "the budget knows the bytes of an array");
	is_u64(budget.refused, 1, "a refused growth of an array is counted");
	budget_free(&budget, items, n * sizeof(*items));
}

static void test_map(void)
{
	struct budget budget;
	struct u64_map map;
	uint64_t n = 0, found = 0;

	budget_init(&budget, MOST * 100);
	u64_map_init(&map, sizeof(uint64_t));
	u64_map_set_budget(&map, &budget);
	while (u64_map_insert(&map, n, NULL))
		n++;
	ok(n > 1000 && budget.refused == 1, "a map grows up to its budget: %lu entries", n);
	for (uint64_t i = 0; i < n; i++)
		found += u64_map_find(&map, i) != NULL;
	is_u64(found, n, "and keeps what it has");
	is_u64(budget.used, u64_map_memory(&map), "the budget knows what it takes");
	u64_map_deinit(&map);
	is_u64(budget.used, 0, "which it gives back");
}

static void *take_and_give(void *arg)
{
	struct budget *budget = arg;

	for (int i = 0; i < ROUNDS; i++)
		if (budget_take(budget, MOST / 3))
			budget_give(budget, MOST / 3);
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	struct budget budget;

	budget_init(&budget, MOST);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, take_and_give, &budget))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_u64(budget.used, 0, "threads may share a budget");
}

int main(void)
{
	test_bound();
	test_memory();
	test_grow();
	test_map();
	test_threads();
	return tap_done();
}
