/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <math.h>

#include "introspect/guest/clock.h"
#include "tests/lib/tap.h"

static const uint64_t rates[] = {1000,    14318,   999999,  1000000, 1000001,  1500000,
				 2000000, 2099998, 2592002, 3400017, 99999999, 100000000};
enum { NR_RATES = sizeof(rates) / sizeof(rates[0]) };

static void test_rates(void)
{
	struct tsc_clock clock = {.tsc0 = 12345, .ns0 = 777};

	for (int i = 0; i < NR_RATES; i++) {
		double worst = 0;

		ok(!tsc_clock_set_rate(&clock, rates[i], NULL) && clock.mult >= 1u << 31,
		   "%llu kHz: mult is normalised", (unsigned long long)rates[i]);
		/* A second, a minute, ... up to 2 years. */
		for (uint64_t s = 1; s < 60000000; s *= 60) {
			uint64_t ns = tsc_clock_ns(&clock, 12345 + s * rates[i] * 1000) - 777;
			double error = fabs((double)(int64_t)(ns - s * 1000000000)) / (double)s;

			worst = error > worst ? error : worst;
		}
		ok(worst <= 1, "%llu kHz: the error is at most 1 ns per second (%.2f)",
		   (unsigned long long)rates[i], worst);
	}
	ok(tsc_clock_set_rate(&clock, 999, NULL) == -ERANGE &&
		   tsc_clock_set_rate(&clock, 100000001, NULL) == -ERANGE &&
		   tsc_clock_set_rate(&clock, 0, NULL) == -ERANGE,
	   "impossible rates are refused");
}

static void test_order(void)
{
	struct tsc_clock clock = {.tsc0 = 1ull << 40, .ns0 = 1ull << 50};
	bool ordered = true;

	for (int i = 0; i < NR_RATES; i++) {
		uint64_t last = 0;

		tsc_clock_set_rate(&clock, rates[i], NULL);
		for (uint64_t tsc = clock.tsc0 - 5000; tsc < clock.tsc0 + 5000; tsc++) {
			uint64_t ns = tsc_clock_ns(&clock, tsc);

			ordered &= ns >= last;
			last = ns;
		}
	}
	ok(ordered, "time never goes back, not even across tsc0");
}

static void test_extremes(void)
{
	struct tsc_clock clock = {.tsc0 = 0, .ns0 = 1000};

	tsc_clock_set_rate(&clock, 1000000, NULL);
	is_u64(tsc_clock_ns(&clock, 0), 1000, "tsc0 is ns0");
	is_u64(tsc_clock_ns(&clock, (uint64_t)-400), 600,
	       "a stamp before tsc0 is a time before ns0");
	is_u64(tsc_clock_ns(&clock, (uint64_t)-1001), 0, "a stamp before time 0 is time 0");
	is_u64(tsc_clock_ns(&clock, 1ull << 63), 0, "a stamp 2^63 ticks back is time 0");
	is_u64(tsc_clock_ns(&clock, ~(1ull << 63)), (1ull << 63) + 999,
	       "a stamp 2^63 ticks ahead is exact");
	clock.ns0 = UINT64_MAX - 5;
	is_u64(tsc_clock_ns(&clock, 6), UINT64_MAX, "a time beyond 64 bits is the greatest one");
	tsc_clock_set_rate(&clock, 1000, NULL);
	is_u64(tsc_clock_ns(&clock, ~(1ull << 63)), UINT64_MAX,
	       "a time far beyond 64 bits is the greatest one");
}

/* For a stamp that it has prepared nothing for, too. */
static void test_quick(void)
{
	static const uint64_t ns0[] = {0, 1000, 1ull << 50, UINT64_MAX - 5};
	uint64_t x = 88172645463325252u;
	unsigned int differ = 0;

	for (int i = 0; i < 4 * NR_RATES; i++) {
		struct tsc_clock clock = {.tsc0 = 1ull << 40, .ns0 = ns0[i % 4]};
		struct tsc_quick_clock quick;

		tsc_clock_set_rate(&clock, rates[i / 4], NULL);
		quick = tsc_clock_quick(&clock);
		for (int n = 0; n < 10000; n++) {
			uint64_t tsc;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			tsc = clock.tsc0 - 1000 + (x >> x % 64);
			differ += tsc_quick_ns(&quick, tsc) != tsc_clock_ns(&clock, tsc);
		}
	}
	is_u64(differ, 0, "a prepared clock gives the same times, at all rates, of any stamp");
}

static void test_near(void)
{
	/* before the clock's own, up to it, behind it, and where times become too large */
	static const uint64_t begin[] = {0, (1ull << 40) - 1, 1ull << 40, (1ull << 40) + 12345,
					 1ull << 62, INT64_MAX, UINT64_MAX - 5};
	static const uint64_t begins = sizeof(begin) / sizeof(begin[0]);
	unsigned int differ = 0, wide = 0;

	for (unsigned int i = 0; i < 4 * NR_RATES; i++) {
		struct tsc_clock clock = {.tsc0 = 1ull << 40, .ns0 = i % 4 ? 1000 : UINT64_MAX / 2};
		struct tsc_quick_clock quick;

		tsc_clock_set_rate(&clock, rates[i / 4], NULL);
		quick = tsc_clock_quick(&clock);
		for (size_t k = 0; k < begins; k++) {
			struct tsc_near_clock near = tsc_clock_near(&quick, begin[k]);
			uint64_t span = near.last - near.first;

			wide += span == INT32_MAX;
			for (uint64_t n = 0; n <= 1000; n++) {
				uint64_t tsc = near.first + span / 1000 * n + n * n % (span + 1);

				differ += tsc_is_near(&near, tsc) &&
					  tsc_near_ns(&near, tsc) != tsc_clock_ns(&clock, tsc);
			}
			differ += tsc_near_ns(&near, near.last) != tsc_clock_ns(&clock, near.last);
			differ += tsc_is_near(&near, near.first - 1);
			differ += tsc_is_near(&near, near.last + 1);
		}
	}
	is_u64(differ, 0, "so does one that is prepared for stamps near each other");
	ok(wide >= 2 * 4 * NR_RATES, "these may be 2^31 ticks apart");
}

int main(void)
{
	test_rates();
	test_order();
	test_extremes();
	test_quick();
	test_near();
	return tap_done();
}
