/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_CLOCK_H
#define SONDE_INTROSPECT_GUEST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

struct guest;

/*
 * From a time stamp counter to nanoseconds of the trace clock, with kvmclock's parameters
 * (Documentation/virt/kvm/x86/msr.rst): ns = ns0 + ((tsc - tsc0) * mult * 2^shift) / 2^32.
 */
struct tsc_clock {
	uint64_t tsc0, ns0; /* the same moment in both */
	uint32_t mult;      /* at least 2^31 */
	int8_t shift;       /* -31 to 31 */
};

/* mult and shift for a counter that runs at `khz`; -ERANGE below 1 MHz and above 100 GHz. */
int tsc_clock_set_rate(struct tsc_clock *clock, uint64_t khz, struct error *err);

/*
 * `tsc` may be any value, also one from before tsc0 or one that the guest made up. The result never
 * decreases in `tsc` within 2^63 ticks before and after tsc0. Where it would be negative or too
 * large it is 0 or UINT64_MAX.
 */
uint64_t tsc_clock_ns(const struct tsc_clock *clock, uint64_t tsc);

/* The clock, prepared for many stamps: ns per tick are whole + part / 2^64. It is quick for up to
 * `most` ticks from tsc0 on, whose time is certainly not too large. */
struct tsc_quick_clock {
	struct tsc_clock clock;
	uint64_t whole, part, most;
};

static inline struct tsc_quick_clock tsc_clock_quick(const struct tsc_clock *clock)
{
	const unsigned __int128 rate = (unsigned __int128)clock->mult << (32 + clock->shift);
	const uint64_t whole = (uint64_t)(rate >> 64);
	const uint64_t most = (UINT64_MAX - clock->ns0) / (whole + 1);

	return (struct tsc_quick_clock){*clock, whole, (uint64_t)rate,
					most < INT64_MAX ? most : INT64_MAX};
}

/* The same as tsc_clock_ns(), if it is quick; else false. */
static inline bool tsc_quick_try(const struct tsc_quick_clock *quick, uint64_t tsc, uint64_t *ns)
{
	const uint64_t ticks = tsc - quick->clock.tsc0;
	const uint64_t below = (uint64_t)((unsigned __int128)ticks * quick->part >> 64);

	*ns = quick->clock.ns0 + ticks * quick->whole + below;
	return ticks <= quick->most;
}

/* The same as tsc_clock_ns(). */
static inline uint64_t tsc_quick_ns(const struct tsc_quick_clock *quick, uint64_t tsc)
{
	uint64_t ns;

	return tsc_quick_try(quick, tsc, &ns) ? ns : tsc_clock_ns(&quick->clock, tsc);
}

/* The clock, prepared for stamps from `first` to `last`, of which the times differ from the first
 * one's by what 64 bits can hold, with its fraction. */
struct tsc_near_clock {
	uint64_t first, last;
	uint64_t ns, mult, fraction;
	unsigned int bits; /* of the fraction */
};

/* From this stamp on. */
struct tsc_near_clock tsc_clock_near(const struct tsc_quick_clock *quick, uint64_t first);

static inline bool tsc_is_near(const struct tsc_near_clock *near, uint64_t tsc)
{
	return tsc - near->first <= near->last - near->first;
}

/* The same as tsc_clock_ns(), of such a stamp. */
static inline uint64_t tsc_near_ns(const struct tsc_near_clock *near, uint64_t tsc)
{
	return near->ns + ((tsc * near->mult + near->fraction) >> near->bits);
}

/*
 * A backend's trace clock, and the same clock for time stamps that vCPUs take themselves with RDTSC
 * or RDTSCP. Without usable time stamps `tsc` and `tsc_clock` are NULL.
 */
struct guest_clock_ops {
	/* The trace clock, in ns: the guest's kvmclock where it has one. Any thread. */
	uint64_t (*now_ns)(struct guest *guest);
	/*
	 * What vCPU 0 would read from its counter now, in terms of its tsc_clock; less where that
	 * is not known exactly: with tsc_seen, it is the latest stamp that was seen. Any thread;
	 * makes no system call.
	 */
	uint64_t (*tsc)(struct guest *guest);
	/* May be NULL. A vCPU has written this stamp; called before `tsc`. */
	void (*tsc_seen)(struct guest *guest, uint64_t tsc);
	/*
	 * A vCPU's conversion, with the guest stopped. It becomes stale when the guest may have
	 * written the counter: while it boots, when it takes a CPU on or off line. -ENOTSUP if the
	 * host has no usable TSC.
	 */
	int (*tsc_clock)(struct guest *guest, unsigned int vcpu, struct tsc_clock *out,
			 struct error *err);
};

#endif
