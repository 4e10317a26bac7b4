/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_TRACE_CLOCK_H
#define SONDE_VMM_MACHINE_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/clock.h"
#include "vmm/kvm/kvm.h"

/*
 * The guest's kvmclock (Documentation/virt/kvm/x86/msr.rst) without an ioctl for each reading: the
 * host's TSC, by kvmclock's own multiplication, from a moment at which both were read. What a vCPU
 * reads from its TSC differs from the host's by an offset, so time stamps that vCPUs took
 * themselves and time stamps of exits are of one scale and in order.
 *
 * Where the host's kernel does not trust its TSC, its raw monotonic clock is used, and there
 * is no conversion for vCPUs.
 */
struct trace_clock {
	const struct kvm *kvm;
	bool has_tsc;
	struct tsc_clock host; /* ns0 is accessed atomically */
	int64_t raw_offset_ns; /* kvmclock minus CLOCK_MONOTONIC_RAW, without TSC */
	uint64_t first_offset; /* of vCPU 0's TSC, as last read; accessed atomically */
};

/* vcpu_fd: of any vCPU; `kvm` must outlive the clock. Before the first vCPU runs. */
int trace_clock_init(struct trace_clock *clock, const struct kvm *kvm, int vcpu_fd,
		     struct error *err);

/* Nanoseconds; never goes back. Any thread. */
uint64_t trace_clock_ns(const struct trace_clock *clock);

/*
 * The clock for what vCPU `index` reads from its TSC, as long as the guest does not write that
 * register, which kernels do while they boot. Also follows kvmclock if that has got ahead. The vCPU
 * must not be running. -ENOTSUP without a usable TSC.
 */
int trace_clock_of_vcpu(struct trace_clock *clock, unsigned int index, int vcpu_fd,
			struct tsc_clock *out, struct error *err);

/* What vCPU 0 would read from its TSC now, by its last trace_clock_of_vcpu(). Any thread. */
uint64_t trace_clock_tsc(const struct trace_clock *clock);

#endif
