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

/* If the first and the last one can be tried, so can those between. */
void tsc_quick_ns_each(const struct tsc_quick_clock *quick, const uint64_t *tsc, size_t n,
		       int64_t *ns)
{
	const uint64_t tsc0 = quick->clock.tsc0, ns0 = quick->clock.ns0;
	const uint64_t whole = quick->whole, part = quick->part;
	uint64_t ignored;

	if (!n || !tsc_quick_try(quick, tsc[0], &ignored) ||
	    !tsc_quick_try(quick, tsc[n - 1], &ignored)) {
		for (size_t i = 0; i < n; i++)
			ns[i] = (int64_t)tsc_quick_ns(quick, tsc[i]);
		return;
	}
#pragma GCC unroll 4
	for (size_t i = 0; i < n; i++) {
		const uint64_t ticks = tsc[i] - tsc0;
		const uint64_t below = (uint64_t)((unsigned __int128)ticks * part >> 64);

		ns[i] = (int64_t)(ticks * whole + below + ns0);
	}
}
