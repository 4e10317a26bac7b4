// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/trace-clock.h"

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

/* The reading that was squeezed most tightly between two of ours is the best one. */
enum { CLOCK_SAMPLES = 5 };

static int64_t raw_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (int64_t)now.tv_sec * KVM_NANOSECONDS + now.tv_nsec;
}

int trace_clock_init(struct trace_clock *clock, const struct kvm *kvm, struct error *err)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < CLOCK_SAMPLES; i++) {
		struct kvm_clock_data data = {0};
		int64_t before = raw_ns(), after;

		if (ioctl(kvm->vm_fd, KVM_GET_CLOCK, &data) < 0)
			return error_set(err, errno, "KVM: cannot read the guest's clock: %s",
					 strerror(errno));
		after = raw_ns();
		if (after - before < best) {
			best = after - before;
			clock->offset_ns = (int64_t)data.clock - (before + best / 2);
		}
	}
	return 0;
}

uint64_t trace_clock_ns(const struct trace_clock *clock)
{
	return (uint64_t)(raw_ns() + clock->offset_ns);
}
