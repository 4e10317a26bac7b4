/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_TSC_CLOCK_H
#define SONDE_INTROSPECT_GUEST_TSC_CLOCK_H

#include <stdint.h>
#include "formats/base/error.h"

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
 * Any counter value, also one from before tsc0 and one that a guest made up: never decreasing in
 * `tsc` within 2^63 ticks before and after tsc0, and 0 or the greatest value where the result would
 * be outside.
 */
uint64_t tsc_clock_ns(const struct tsc_clock *clock, uint64_t tsc);

#endif
