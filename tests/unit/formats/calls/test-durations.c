/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Percentiles of durations, and what they cost. */
#include <stdlib.h>
#include "formats/calls/durations.h"
#include "tests/lib/tap.h"

enum { MANY = 10000, PLENTY = 1000 };

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The smallest duration that so many percent do not exceed. */
static uint64_t exact(const uint64_t sorted[MANY], unsigned int percent)
{
	return sorted[(MANY * percent + 99) / 100 - 1];
}

/* Of all magnitudes, from 0 to 2^64 - 1. */
static void test_percentiles(void)
{
	static const unsigned int percents[] = {1, 50, 95, 99, 100};
	static uint64_t all[MANY];
	struct durations d = {0};
	size_t left = PLENTY;

	for (size_t i = 0; i < MANY; i++) {
		all[i] = ((uint64_t)random() << 33 ^ (uint64_t)random() << 10) >> random() % 64;
		if (i < 2)
			all[i] = i ? UINT64_MAX : 0;
		if (durations_add(&d, all[i], &left))
			abort();
	}
	qsort(all, MANY, sizeof(all[0]), compare);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		const uint64_t want = exact(all, percents[i]);
		const uint64_t got = durations_percentile(&d, percents[i]);

		ok(got >= want && got - want <= want / 16,
		   "percentile %u of %d durations is at most 1/16 too large", percents[i], MANY);
	}
	ok(d.n == MANY && d.max_ns == UINT64_MAX, "the number and the longest one are exact");
	is_u64(PLENTY - left, 61, "all magnitudes take 61 powers");
	durations_deinit(&d);
}

static void test_few(void)
{
	struct durations d = {0};
	size_t left = PLENTY;

	is_u64(durations_percentile(&d, 50), 0, "without durations there is no percentile");
	is_u64(durations_mean(&d), 0, "and no mean");
	for (uint64_t ns = 1000; ns < 1020; ns++)
		if (durations_add(&d, ns, &left))
			abort();
	is_u64(PLENTY - left, 1, "durations of one magnitude take one power");
	is_u64(durations_percentile(&d, 99), 1019, "no percentile exceeds the longest");
	is_u64(durations_mean(&d), 1009, "the mean is exact");
	durations_deinit(&d);
}

static void test_no_room(void)
{
	struct durations d = {0};
	size_t left = 1;

	ok(!durations_add(&d, 100, &left) && !durations_add(&d, 5000, &left) && !left,
	   "without room for a magnitude a duration is added");
	ok(d.n == 2 && d.total_ns == 5100 && d.max_ns == 5000, "to number, sum and maximum");
	is_u64(durations_percentile(&d, 50), 103, "percentiles below are as before");
	is_u64(durations_percentile(&d, 99), 5000, "those above are the longest");
	durations_deinit(&d);
}

int main(void)
{
	test_percentiles();
	test_few();
	test_no_room();
	return tap_done();
}
