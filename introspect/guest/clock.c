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

/* The first time exactly: in ns, and behind the point. What passes later is added to the latter. */
struct tsc_near_clock tsc_clock_near(const struct tsc_quick_clock *quick, uint64_t first)
{
	const struct tsc_clock *clock = &quick->clock;
	const uint64_t ticks = first - clock->tsc0, left = quick->most - ticks;
	struct tsc_near_clock near = {first, first, tsc_quick_ns(quick, first), 0, 0, 0};

	if (ticks > quick->most)
		return near;
	near.last = first + (left < INT32_MAX ? left : INT32_MAX);
	near.mult = clock->mult;
	near.bits = (unsigned int)(FRACTION_BITS - clock->shift);
	near.fraction = (ticks * near.mult & ((UINT64_C(1) << near.bits) - 1)) - first * near.mult;
	return near;
}
