/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trace clock over a KVM whose clock and TSC the test sets. */
#include "vmm/machine/trace-clock.h"

#include <string.h>
#include <x86intrin.h>
#include "tests/lib/tap.h"
#include "tests/unit/vmm/ioctl-hook.h"

enum { KHZ = 1000000, MS = 1000000 };

static const struct kvm kvm = {.fd = -1, .vm_fd = 100};
enum { VCPU_FD = 101 };

static struct {
	uint64_t clock_ns;
	bool has_host_tsc, has_offset, no_khz, no_clock, no_msr;
	uint64_t offset; /* of a vCPU's TSC */
} fake;

static bool fake_kvm(int fd, unsigned long request, void *arg, int *ret)
{
	struct kvm_clock_data *clock = arg;
	struct kvm_device_attr *attr = arg;
	struct kvm_msrs *msrs = arg;

	(void)fd;
	switch (request) {
	case KVM_GET_TSC_KHZ:
		*ret = fake.no_khz ? -EIO : KHZ;
		break;
	case KVM_GET_CLOCK:
		clock->clock = fake.clock_ns;
		clock->flags = fake.has_host_tsc ? KVM_CLOCK_HOST_TSC : 0;
		clock->host_tsc = __rdtsc();
		*ret = fake.no_clock ? -EIO : 0;
		break;
	case KVM_GET_DEVICE_ATTR:
		if (fake.has_offset)
			memcpy((void *)(uintptr_t)attr->addr, &fake.offset, sizeof(fake.offset));
		*ret = fake.has_offset ? 0 : -ENXIO;
		break;
	case KVM_GET_MSRS:
		msrs->entries[0].data = __rdtsc() + fake.offset;
		*ret = fake.no_msr ? 0 : 1;
		break;
	default:
		return false;
	}
	return true;
}

static struct trace_clock clock_under_test;

static int init(void)
{
	return trace_clock_init(&clock_under_test, &kvm, VCPU_FD, NULL);
}

static bool near(uint64_t a, uint64_t b, uint64_t distance)
{
	return (a > b ? a - b : b - a) <= distance;
}

static void test_host_clock(const char *how)
{
	uint64_t first;

	fake.clock_ns = 5000ull * MS;
	is_u64((uint64_t)init(), 0, "the clock is set up");
	first = trace_clock_ns(&clock_under_test);
	ok(first >= fake.clock_ns && first < fake.clock_ns + 1000ull * MS,
	   "the clock begins with kvmclock, %s", how);
	ok(trace_clock_ns(&clock_under_test) >= first, "the clock does not go back, %s", how);
}

/* A TSC that is `offset` ahead of the host's is converted to the clock's own time. */
static void test_conversion(const char *how)
{
	struct tsc_clock vcpu = {0};
	uint64_t before, stamp, after;

	init();
	is_u64((uint64_t)trace_clock_of_vcpu(&clock_under_test, 0, VCPU_FD, &vcpu, NULL), 0,
	       "a vCPU's TSC can be converted");
	before = trace_clock_ns(&clock_under_test);
	stamp = tsc_clock_ns(&vcpu, trace_clock_tsc(&clock_under_test));
	after = trace_clock_ns(&clock_under_test);
	ok(stamp + MS >= before && stamp <= after + MS,
	   "a vCPU's TSC is converted to the clock's time, by %s", how);
	ok(near(trace_clock_tsc(&clock_under_test), __rdtsc() + fake.offset, 1000ull * MS),
	   "the TSC of vCPU 0 is known, by %s", how);
}

static void test_following(void)
{
	struct tsc_clock vcpu;
	uint64_t before;

	init();
	before = trace_clock_ns(&clock_under_test);
	fake.clock_ns += 60000ull * MS;
	trace_clock_of_vcpu(&clock_under_test, 1, VCPU_FD, &vcpu, NULL);
	ok(trace_clock_ns(&clock_under_test) >= before + 50000ull * MS,
	   "a kvmclock that is ahead moves the clock forward");
	before = trace_clock_ns(&clock_under_test);
	fake.clock_ns -= 60000ull * MS;
	trace_clock_of_vcpu(&clock_under_test, 1, VCPU_FD, &vcpu, NULL);
	ok(trace_clock_ns(&clock_under_test) >= before,
	   "a kvmclock that is behind does not move the clock back");
}

static void test_failures(void)
{
	struct tsc_clock vcpu;
	struct error err;

	init();
	fake.no_msr = true;
	fake.has_offset = false;
	ok(trace_clock_of_vcpu(&clock_under_test, 0, VCPU_FD, &vcpu, &err) == -EIO &&
		   strstr(err.text, "time stamp counter"),
	   "a TSC that cannot be read is reported");
	fake.no_msr = false;
	fake.no_clock = true;
	ok(trace_clock_of_vcpu(&clock_under_test, 0, VCPU_FD, &vcpu, &err) == -EIO &&
		   strstr(err.text, "the guest's clock"),
	   "a kvmclock that cannot be read any more is reported");
	is_u64((uint64_t)-init(), EIO, "a kvmclock that cannot be read at the start is an error");
	fake.no_clock = false;
}

static void test_without_tsc(void)
{
	struct tsc_clock vcpu;
	struct error err;

	fake.no_khz = true;
	test_host_clock("without a TSC");
	ok(trace_clock_of_vcpu(&clock_under_test, 0, VCPU_FD, &vcpu, &err) == -ENOTSUP &&
		   strstr(err.text, "does not trust its time stamp counter"),
	   "without a usable TSC vCPUs cannot take time stamps");
	fake.no_khz = false;
}

int main(void)
{
	ioctl_hook = fake_kvm;
	test_without_tsc();
	if (init() || !clock_under_test.has_tsc) {
		tap_skip("clocks by the TSC", "this host does not trust its TSC");
		return tap_done();
	}
	test_host_clock("between two readings of the TSC");
	fake.has_host_tsc = true;
	test_host_clock("with the TSC that KVM returns");
	fake.offset = 123456789012;
	test_conversion("reading the TSC");
	fake.has_offset = true;
	test_conversion("the offset that KVM returns");
	test_following();
	test_failures();
	return tap_done();
}
