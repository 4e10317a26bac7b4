/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/machine/trace-clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <x86intrin.h>
#include "formats/base/clock.h"

enum {
	/* The best sample is the one whose two readings of the host's clock are closest. */
	CLOCK_SAMPLES = 5,
	MSR_TSC = 0x10,
};

/* A kernel that has found its TSC unusable does not list it any more. */
static const char clocksources[] =
	"/sys/devices/system/clocksource/clocksource0/available_clocksource";

static uint64_t host_tsc(void)
{
	/* After everything that the caller has observed. */
	_mm_lfence();
	return __rdtsc();
}

static bool host_trusts_tsc(void)
{
	int fd = open(clocksources, O_RDONLY | O_CLOEXEC);
	char list[256] = " ";
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, list + 1, sizeof(list) - 2);
	close(fd);
	for (char *p = list; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	return n > 0 && strstr(list, " tsc ");
}

/* A value read from KVM, and a clock of the host at the same time. */
struct reading {
	uint64_t guest, host;
	bool exact; /* KVM has returned the host's TSC with it */
};
typedef int read_fn(int fd, struct reading *out);

static int read_kvmclock(int vm_fd, struct reading *out)
{
	struct kvm_clock_data data = {0};

	if (ioctl(vm_fd, KVM_GET_CLOCK, &data) < 0)
		return -errno;
	out->guest = data.clock;
	out->exact = data.flags & KVM_CLOCK_HOST_TSC;
	out->host = data.host_tsc;
	return 0;
}

static int read_vcpu_tsc(int vcpu_fd, struct reading *out)
{
	union kvm_msr_pair u = {.room = {0}};

	u.msrs.nmsrs = 1;
	u.msrs.entries[0].index = MSR_TSC;
	if (ioctl(vcpu_fd, KVM_GET_MSRS, &u.msrs) != 1)
		return -EIO;
	out->guest = u.msrs.entries[0].data;
	out->exact = false;
	return 0;
}

/* `now` reads the host's clock; *best gets the most exact of several samples. */
static int read_together(read_fn *read_guest, int fd, uint64_t (*now)(void), struct reading *best)
{
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < CLOCK_SAMPLES; i++) {
		struct reading reading = {0};
		uint64_t before = now(), after;
		int ret = read_guest(fd, &reading);

		if (ret)
			return ret;
		after = now();
		if (reading.exact && now == host_tsc) {
			*best = reading;
			return 0;
		}
		if (after - before < width) {
			width = after - before;
			*best = (struct reading){reading.guest, before + width / 2, false};
		}
	}
	return 0;
}

static int read_clock(const struct trace_clock *clock, struct reading *out, struct error *err)
{
	int ret = read_together(read_kvmclock, clock->kvm->vm_fd,
				clock->has_tsc ? host_tsc : clock_raw_ns, out);

	return ret ? error_set(err, -ret, "KVM: cannot read the guest's clock: %s", strerror(-ret))
		   : 0;
}

int trace_clock_init(struct trace_clock *clock, const struct kvm *kvm, int vcpu_fd,
		     struct error *err)
{
	int khz = ioctl(vcpu_fd, KVM_GET_TSC_KHZ, 0);
	struct reading reading;
	int ret;

	*clock = (struct trace_clock){.kvm = kvm};
	clock->has_tsc = host_trusts_tsc() && khz > 0 &&
			 !tsc_clock_set_rate(&clock->host, (uint64_t)khz, NULL);
	ret = read_clock(clock, &reading, err);
	if (ret)
		return ret;
	if (clock->has_tsc) {
		clock->host.tsc0 = reading.host;
		clock->host.ns0 = reading.guest;
	} else {
		clock->raw_offset_ns = (int64_t)(reading.guest - reading.host);
	}
	return 0;
}

/* A consistent copy, while another thread may move the clock forward. */
static struct tsc_clock current_clock(const struct trace_clock *clock)
{
	struct tsc_clock copy = clock->host;

	copy.ns0 = __atomic_load_n(&clock->host.ns0, __ATOMIC_RELAXED);
	return copy;
}

uint64_t trace_clock_ns(const struct trace_clock *clock)
{
	struct tsc_clock now;

	if (!clock->has_tsc)
		return clock_raw_ns() + (uint64_t)clock->raw_offset_ns;
	now = current_clock(clock);
	return tsc_clock_ns(&now, host_tsc());
}

/* Only forward: earlier time stamps stay valid. */
static int follow_kvmclock(struct trace_clock *clock, struct error *err)
{
	struct tsc_clock now = current_clock(clock);
	struct reading reading;
	int ret = read_clock(clock, &reading, err);
	uint64_t mine;

	if (ret)
		return ret;
	mine = tsc_clock_ns(&now, reading.host);
	if (reading.guest > mine)
		__atomic_store_n(&clock->host.ns0, now.ns0 + (reading.guest - mine),
				 __ATOMIC_RELAXED);
	return 0;
}

/* How far a vCPU's TSC is ahead of the host's (Documentation/virt/kvm/devices/vcpu.rst, since
 * Linux 5.16). */
static int read_offset(int vcpu_fd, uint64_t *offset, struct error *err)
{
	struct kvm_device_attr attr = {
		.group = KVM_VCPU_TSC_CTRL, .attr = KVM_VCPU_TSC_OFFSET, .addr = (uintptr_t)offset};
	struct reading reading = {0};

	if (!ioctl(vcpu_fd, KVM_GET_DEVICE_ATTR, &attr))
		return 0;
	if (read_together(read_vcpu_tsc, vcpu_fd, host_tsc, &reading))
		return error_set(err, EIO, "KVM: cannot read a vCPU's time stamp counter");
	*offset = reading.guest - reading.host;
	return 0;
}

int trace_clock_of_vcpu(struct trace_clock *clock, unsigned int index, int vcpu_fd,
			struct tsc_clock *out, struct error *err)
{
	uint64_t offset;
	int ret;

	if (!clock->has_tsc)
		return error_set(err, ENOTSUP,
				 "the host does not trust its time stamp counter, so vCPUs "
				 "cannot take time stamps");
	ret = read_offset(vcpu_fd, &offset, err);
	if (!ret)
		ret = follow_kvmclock(clock, err);
	if (ret)
		return ret;
	*out = current_clock(clock);
	out->tsc0 += offset;
	if (index == 0)
		__atomic_store_n(&clock->first_offset, offset, __ATOMIC_RELAXED);
	return 0;
}

uint64_t trace_clock_tsc(const struct trace_clock *clock)
{
	return host_tsc() + __atomic_load_n(&clock->first_offset, __ATOMIC_RELAXED);
}
