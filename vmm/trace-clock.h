/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TRACE_CLOCK_H
#define SONDE_VMM_TRACE_CLOCK_H

#include <stdint.h>
#include "formats/error.h"
#include "vmm/kvm.h"

/*
 * The guest's kvmclock (Documentation/virt/kvm/x86/msr.rst) without an ioctl for each reading: its
 * distance to the host's raw monotonic clock is measured once. Both count the same TSC, so
 * the distance stays.
 */
struct trace_clock {
	int64_t offset_ns; /* kvmclock minus CLOCK_MONOTONIC_RAW */
};

int trace_clock_init(struct trace_clock *clock, const struct kvm *kvm, struct error *err);

/* Nanoseconds; never goes back. Any thread. */
uint64_t trace_clock_ns(const struct trace_clock *clock);

#endif
