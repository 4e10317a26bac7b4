/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's side of histograms: what CPUs have written is added up, kept and cleared; and memory
 * that is damaged. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/ring/hist.h"
#include "tests/lib/tap.h"

enum { CPUS = 3, BYTES = 16 << 10, STRIDE = BYTES + 256 };

static _Alignas(64) uint8_t memory[CPUS * STRIDE];

static const struct hist_memory data = {memory, BYTES, STRIDE, CPUS};
static const struct hist_config config = {
	.keys = {{.name = "a"}, {.name = "b"}}, .words = {1, 1}, .nr_keys = 2, .nr_sums = 1};

static struct hist *make(uint32_t size)
{
	struct hist_config c = config;
	struct hist *hist;

	c.size = size;
	if (hist_create(&c, NULL, &hist, NULL) || hist_attach(hist, &data, NULL))
		abort();
	return hist;
}

static struct hist_head *head_of(unsigned int cpu)
{
	return (void *)(memory + (size_t)cpu * STRIDE);
}

static struct hist_place *place_of(const struct hist *hist, unsigned int cpu, uint32_t i)
{
	return (void *)((uint8_t *)(head_of(cpu) + 1) + (size_t)i * hist_layout_of(hist).size);
}

static void put(const struct hist *hist, unsigned int cpu, uint32_t i, uint64_t a, uint64_t b,
		uint64_t hits, uint64_t sum)
{
	struct hist_place *place = place_of(hist, cpu, i);

	place->state = HIST_READY;
	place->hits = hits;
	place->words[0] = sum;
	place->words[1] = a;
	place->words[2] = b;
}

static bool has(struct hist *hist, size_t n, size_t i, uint64_t a, uint64_t b, uint64_t hits,
		uint64_t sum)
{
	struct hist_sums sums;
	bool good = !hist_read(hist, &sums, NULL) && sums.n == n;

	good = good && (!n || (sums.v[i].key[0] == a && sums.v[i].key[1] == b &&
			       sums.v[i].hits == hits && sums.v[i].sums[0] == sum));
	hist_sums_deinit(&sums);
	return good;
}

static uint64_t dropped(struct hist *hist)
{
	struct hist_sums sums;
	uint64_t n;

	if (hist_read(hist, &sums, NULL))
		abort();
	n = sums.dropped;
	hist_sums_deinit(&sums);
	return n;
}

static void test_sums(void)
{
	struct hist *hist = make(16);
	const struct hist_place *left;

	ok(has(hist, 0, 0, 0, 0, 0, 0), "a new histogram is empty");
	put(hist, 0, 3, 5, 6, 10, 100);
	put(hist, 1, 9, 5, 6, 1, 7);
	put(hist, 1, 10, 5, 6, 2, 8);
	put(hist, 2, 0, 1, 9, 4, 4);
	ok(has(hist, 2, 0, 1, 9, 4, 4) && has(hist, 2, 1, 5, 6, 13, 115),
	   "places with the same key are one, on all CPUs");
	place_of(hist, 2, 0)->state = HIST_CLAIMED;
	ok(has(hist, 1, 0, 5, 6, 13, 115), "a place that is being written is none yet");
	head_of(0)->dropped = 3;
	head_of(2)->dropped = 4;
	ok(dropped(hist) == 7, "what had no room is added up");
	ok(!hist_clear(hist, NULL) && has(hist, 0, 0, 0, 0, 0, 0) && !dropped(hist),
	   "nothing is left when it is cleared");
	put(hist, 0, 3, 5, 6, 11, 105);
	head_of(0)->dropped = 5;
	ok(has(hist, 1, 0, 5, 6, 1, 5) && dropped(hist) == 2, "what follows is counted from 0");
	hist_detach(hist);
	ok(has(hist, 1, 0, 5, 6, 1, 5) && dropped(hist) == 2 && !head_of(0)->dropped &&
		   !place_of(hist, 0, 3)->state,
	   "it is kept when the memory goes, which is zeroed");
	ok(!hist_attach(hist, &data, NULL), "there is memory again");
	put(hist, 1, 0, 5, 6, 2, 2);
	ok(has(hist, 1, 0, 5, 6, 3, 7), "to which it is added");
	ok(!hist_clear(hist, NULL) && has(hist, 0, 0, 0, 0, 0, 0), "both are cleared");
	left = place_of(hist, 1, 0);
	hist_put(hist);
	ok(!left->state, "the last user leaves the memory zeroed");
}

/* A task that executes another program has another name; so has the idle task of each CPU. */
static void test_names(void)
{
	const struct hist_config c = {.keys = {{.name = "pid", .show = HIST_EXECNAME}},
				      .words = {2},
				      .nr_keys = 1,
				      .nr_sums = 1};
	struct hist *hist;

	if (hist_create(&c, NULL, &hist, NULL) || hist_attach(hist, &data, NULL))
		abort();
	put(hist, 0, 3, 7, 'a', 1, 100);
	put(hist, 0, 4, 8, 'c', 1, 100);
	put(hist, 1, 5, 7, 'b', 5, 10);
	ok(has(hist, 2, 0, 7, 'b', 6, 110), "a pid is one key, under the name of most of its hits");
	ok(has(hist, 2, 1, 8, 'c', 1, 100), "and another pid another one");
	put(hist, 0, 3, 7, 'a', 4, 100);
	put(hist, 2, 6, 7, 'a', 4, 100);
	ok(has(hist, 2, 0, 7, 'a', 13, 210), "on all CPUs together");
	if (hist_clear(hist, NULL))
		abort();
	put(hist, 1, 5, 7, 'b', 8, 10);
	ok(has(hist, 1, 0, 7, 'b', 3, 0), "and since the last clear");
	hist_put(hist);
}

static void test_sizes(void)
{
	struct hist_memory small = data;
	struct hist_config c = config;
	struct error err = {0};
	struct hist *hist = make(0);

	ok(hist_layout_of(hist).limit == 128 && hist_layout_of(hist).bits == 8,
	   "without a size it is as large as there is room for, in twice as many places");
	hist_put(hist);
	c.size = 2048;
	if (hist_create(&c, NULL, &hist, NULL))
		abort();
	ok(hist_attach(hist, &data, &err) == -ENOSPC,
	   "a size for which there is no room is refused");
	is_str(err.text,
	       "no room for a histogram of size=2048 in 16 KiB of each vCPU: size=128 fits, or "
	       "give "
	       "it larger rings",
	       "with the one that would fit");
	small.data_bytes = 1024;
	ok(hist_attach(hist, &small, &err) == -ENOSPC && strstr(err.text, "larger rings"),
	   "so is memory that has no room for any");
	hist_put(hist);
}

/* Whatever the guest writes, it is read within bounds. */
static void test_damage(void)
{
	struct hist *hist = make(16);
	struct hist_sums sums;
	bool good = true;
	uint32_t seed = 1;

	for (int round = 0; good && round < 200; round++) {
		for (size_t i = 0; i < sizeof(memory); i++) {
			seed = seed * 1103515245 + 12345;
			memory[i] = seed >> 28 ? 0 : (uint8_t)(seed >> 16);
			if (!(seed >> 20 & 31))
				memory[i] = HIST_READY;
		}
		good = !hist_read(hist, &sums, NULL) &&
		       sums.n <= (size_t)CPUS * hist_layout_of(hist).places;
		for (size_t i = 1; good && i < sums.n; i++)
			good = memcmp(sums.v[i - 1].key, sums.v[i].key, 16) != 0;
		hist_sums_deinit(&sums);
		good &= round % 3 || !hist_clear(hist, NULL);
	}
	ok(good, "damaged memory is read within bounds, and each key is there once");
	hist_put(hist);
}

/* A guest that has ever other keys, each time that its memory goes. */
static void test_budget(void)
{
	enum { MOST = 8 << 10, TIMES = 100, KEYS = 16 };
	uint64_t hits = 0, lost;
	struct hist_config c = config;
	struct hist_sums sums;
	struct budget budget;
	struct hist *hist;

	c.size = KEYS;
	budget_init(&budget, MOST);
	if (hist_create(&c, &budget, &hist, NULL))
		abort();
	for (uint64_t i = 0; i < TIMES; i++) {
		if (hist_attach(hist, &data, NULL))
			abort();
		for (uint32_t k = 0; k < KEYS; k++)
			put(hist, 0, k, i, k, 1, 0);
		hist_detach(hist);
	}
	ok(budget.refused && budget.used && budget.used <= MOST,
	   "ever other keys take no more than the guest's budget: %zu bytes", budget.used);
	lost = dropped(hist);
	if (hist_read(hist, &sums, NULL))
		abort();
	for (size_t i = 0; i < sums.n; i++)
		hits += sums.v[i].hits;
	hist_sums_deinit(&sums);
	ok(hits && lost && hits + lost == TIMES * KEYS, "what is beyond it is counted as dropped");
	hist_put(hist);
	is_u64(budget.used, 0, "all is given back");
}

/* Keys of 16 words, as call chains have. */
static void test_host(void)
{
	enum { FRAMES = 16, SIZE = 64, KEYS = 100, ROUNDS = 3 };
	struct hist_config c = {.keys = {{.name = "stacktrace"}},
				.words = {FRAMES},
				.nr_keys = 1,
				.nr_sums = 2,
				.size = SIZE};
	uint64_t key[FRAMES] = {0}, values[2];
	struct budget budget;
	struct hist_sums sums;
	struct hist *hist;
	struct error err = {0};
	bool good = true;

	budget_init(&budget, 1 << 20);
	if (hist_create(&c, &budget, &hist, NULL) || hist_keep_on_host(hist, NULL))
		abort();
	ok(budget.used, "the host's table is of the guest's budget");
	for (uint64_t i = 0; i < KEYS * ROUNDS; i++) {
		key[0] = 5;
		key[FRAMES - 1] = i % KEYS;
		values[0] = i;
		values[1] = UINT64_MAX;
		hist_add(hist, key, values);
	}
	if (hist_read(hist, &sums, NULL))
		abort();
	ok(sums.n == SIZE && sums.size == SIZE && sums.dropped == (KEYS - SIZE) * ROUNDS,
	   "it has room for as many keys as were asked for, and counts events of others");
	for (size_t i = 0; i < sums.n; i++) {
		const struct hist_sum *s = &sums.v[i];

		good &= s->key[0] == 5 && s->key[FRAMES - 1] == i && s->hits == ROUNDS &&
			s->sums[0] == ROUNDS * i + KEYS * (ROUNDS * (ROUNDS - 1) / 2) &&
			(int64_t)s->sums[1] == -ROUNDS;
	}
	ok(good, "events are added up by all words of their keys");
	hist_sums_deinit(&sums);
	atomic_fetch_add(hist_lost(hist), 7);
	ok(dropped(hist) == (KEYS - SIZE) * ROUNDS + 7, "lost events are dropped ones");
	ok(!hist_clear(hist, NULL) && !dropped(hist), "it is cleared");
	key[FRAMES - 1] = 1;
	hist_add(hist, key, values);
	ok(!hist_read(hist, &sums, NULL) && sums.n == 1 && sums.v[0].hits == 1,
	   "and goes on, also without room for more keys");
	hist_sums_deinit(&sums);
	hist_put(hist);
	is_u64(budget.used, 0, "the memory goes with it");
	c.size = 1 << 17;
	if (hist_create(&c, &budget, &hist, NULL))
		abort();
	ok(hist_keep_on_host(hist, &err) == -ENOMEM && strstr(err.text, "size=131072"),
	   "one that the budget has no room for is refused: %s", err.text);
	hist_put(hist);
}

int main(void)
{
	test_host();
	test_budget();
	test_sums();
	test_names();
	test_sizes();
	test_damage();
	return tap_done();
}
