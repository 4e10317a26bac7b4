/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/guest/clock.h"

#include <errno.h>

enum { KHZ_MIN = 1000, KHZ_MAX = 100000000, NS_PER_MS = 1000000, FRACTION_BITS = 32 };

int tsc_clock_set_rate(struct tsc_clock *clock, uint64_t khz, struct error *err)
{
	uint64_t ns = NS_PER_MS, ticks = khz;
	int shift = 0;

	if (khz < KHZ_MIN || khz > KHZ_MAX)
		return error_set(err, ERANGE, "no time stamp counter runs at %llu kHz",
				 (unsigned long long)khz);
	/* ns / ticks, scaled into [1/2, 1) so that mult has all its bits. */
	for (; ns >= ticks; shift++)
		ticks *= 2;
	for (; ns * 2 < ticks; shift--)
		ns *= 2;
	clock->mult = (uint32_t)((ns << FRACTION_BITS) / ticks);
	clock->shift = (int8_t)shift;
	return 0;
}

uint64_t tsc_clock_ns(const struct tsc_clock *clock, uint64_t tsc)
{
	__int128 ticks = (int64_t)(tsc - clock->tsc0);
	__int128 ns = clock->ns0 + (ticks * clock->mult >> (FRACTION_BITS - clock->shift));

	if (ns < 0)
		return 0;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* Whether the times of all between can be reckoned from that of the first one, in 64 bits. */
static bool are_near(const struct tsc_quick_clock *quick, uint64_t first, uint64_t last)
{
	const uint64_t tsc0 = quick->clock.tsc0;

	return first - tsc0 <= quick->most && last - tsc0 <= quick->most &&
	       last - first <= INT32_MAX;
}

/* The first time exactly: in ns, and behind the point. To the latter is added what has passed since. */
void tsc_quick_ns_each(const struct tsc_quick_clock *quick, const uint64_t *tsc, size_t n,
		       int64_t *ns)
{
	const uint64_t mult = quick->clock.mult;
	const unsigned int bits = (unsigned int)(FRACTION_BITS - quick->clock.shift);
	uint64_t first, fraction;

	if (!n || !are_near(quick, tsc[0], tsc[n - 1])) {
		for (size_t i = 0; i < n; i++)
			ns[i] = (int64_t)tsc_quick_ns(quick, tsc[i]);
		return;
	}
	first = tsc_quick_ns(quick, tsc[0]);
	fraction = (tsc[0] - quick->clock.tsc0) * mult & ((UINT64_C(1) << bits) - 1);
	fraction -= tsc[0] * mult;
#pragma GCC unroll 4
	for (size_t i = 0; i < n; i++)
		ns[i] = (int64_t)(first + ((tsc[i] * mult + fraction) >> bits));
}
