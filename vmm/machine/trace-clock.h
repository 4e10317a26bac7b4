/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_TRACE_CLOCK_H
#define SONDE_VMM_MACHINE_TRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/clock.h"
#include "vmm/kvm/kvm.h"

/*
 * The guest's kvmclock (Documentation/virt/kvm/x86/msr.rst) without an ioctl for each reading. Both
 * kvmclock and the host's TSC are read at one moment; later values follow from the TSC, by
 * kvmclock's own multiplication. A vCPU's TSC differs from the host's by an offset. So time stamps
 * that vCPUs take and time stamps of exits have one scale, and are in order.
 *
 * If the host's kernel does not trust its TSC, the raw monotonic clock replaces it, and there is no
 * conversion for vCPUs.
 */
struct trace_clock {
	const struct kvm *kvm;
	bool has_tsc;
	struct tsc_clock host; /* ns0 is accessed atomically */
	int64_t raw_offset_ns; /* kvmclock minus CLOCK_MONOTONIC_RAW, without TSC */
	uint64_t first_offset; /* of vCPU 0's TSC when it was last read; accessed atomically */
};

/* Before the first vCPU runs. vcpu_fd: of any vCPU; `kvm` must outlive the clock. Errors are those
 * of KVM_GET_CLOCK. */
int trace_clock_init(struct trace_clock *clock, const struct kvm *kvm, int vcpu_fd,
		     struct error *err);

/* Nanoseconds; never goes back. Any thread. */
uint64_t trace_clock_ns(const struct trace_clock *clock);

/*
 * The conversion of what vCPU `index` reads from its TSC. It is valid until the guest writes that
 * register, as kernels do while they boot. If kvmclock is ahead of *clock, *clock is moved forward.
 * The vCPU must not be running. -ENOTSUP without a usable TSC.
 */
int trace_clock_of_vcpu(struct trace_clock *clock, unsigned int index, int vcpu_fd,
			struct tsc_clock *out, struct error *err);

/* What vCPU 0 would read from its TSC now, by the offset of its last trace_clock_of_vcpu(). Any
 * thread. */
uint64_t trace_clock_tsc(const struct trace_clock *clock);

#endif
