// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/guest/scratch-clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"

enum {
	NS_PER_US = 1000,
	/* Below two emulated machines an ioctl takes about 10 us, so the two clocks cannot be read
	 * closer together than this. */
	KVMCLOCK_TOLERANCE_NS = 100 * NS_PER_US,
	RAW_TOLERANCE_NS = 20 * NS_PER_US,
	LOG_UNIT_NS = NS_PER_US,
	LOG_DELAY_NS = 1000 * NS_PER_US, /* from a system call to the stamp of what it logs */
	BOOT_CPUS = 2,                   /* whose pvclock page is in hv_clock_boot[] */
	MAX_SAMPLES = 64,
};

/* struct pvclock_vcpu_time_info (Documentation/virt/kvm/x86/msr.rst), on a cache line each. */
struct pvclock {
	uint32_t version, pad;
	uint64_t tsc_timestamp, system_time;
	uint32_t mul;
	int8_t shift;
	uint8_t flags, pads[2];
	uint8_t line[32];
};
_Static_assert(sizeof(struct pvclock) == 64, "as the guest's kernel has it");

static int64_t distance(const struct tsc_clock *a, const struct tsc_clock *b, uint64_t tsc)
{
	return (int64_t)(tsc_clock_ns(a, tsc) - tsc_clock_ns(b, tsc));
}

void clock_check_kvmclock(const struct kernel *kernel, const struct tsc_clock *clocks)
{
	uint64_t pages = kernel_symbol(kernel, "hv_clock_boot");
	uint64_t now = kernel->guest->clock->tsc(kernel->guest);
	struct pvclock page;

	for (unsigned int i = 0; i < BOOT_CPUS; i++) {
		struct tsc_clock theirs;
		int64_t ns;

		if (kernel_read(kernel, pages + i * sizeof(page), &page, sizeof(page), NULL) ||
		    !page.mul) {
			ok(false, "vCPU %u has a kvmclock", i);
			continue;
		}
		theirs = (struct tsc_clock){page.tsc_timestamp, page.system_time, page.mul,
					    page.shift};
		ns = distance(&clocks[i], &theirs, now);
		ok(llabs(ns) < KVMCLOCK_TOLERANCE_NS,
		   "vCPU %u: the trace clock agrees with the guest's kvmclock", i);
		tap_diag("vCPU %u: the trace clock is %lld ns ahead of kvmclock", i, (long long)ns);
		ok(page.mul == clocks[i].mult && page.shift == clocks[i].shift,
		   "vCPU %u: the trace clock has the multiplier and shift of kvmclock", i);
	}
}

struct range {
	int64_t min, max;
	unsigned int n;
};

static void extend(struct range *range, int64_t value)
{
	if (!range->n || value < range->min)
		range->min = value;
	if (!range->n || value > range->max)
		range->max = value;
	range->n++;
}

/* The time stamp of a message in the guest's log, in ns of its sched_clock; 0 if there is none. */
static uint64_t log_stamp(const char *log, unsigned int number)
{
	unsigned long long seconds, us;
	char text[64];
	const char *at;

	snprintf(text, sizeof(text), "] sonde-kmsg: %u", number);
	at = strstr(log, text);
	while (at && at > log && *at != '[')
		at--;
	if (!at || sscanf(at, "[%llu.%llu]", &seconds, &us) != 2)
		return 0;
	return seconds * 1000000000 + us * NS_PER_US;
}

/*
 * sched_clock() starts when the kernel has found kvmclock: at kvm_sched_clock_offset, plus what
 * sched_clock() had counted until then.
 */
static int64_t sched_clock_begin(const struct kernel *kernel)
{
	static const char *const names[] = {"kvm_sched_clock_offset", "__sched_clock_offset"};
	int64_t values[2] = {0};

	for (int i = 0; i < 2; i++)
		if (kernel_symbol(kernel, names[i]))
			kernel_read(kernel, kernel_symbol(kernel, names[i]), &values[i],
				    sizeof(values[i]), NULL);
	return values[0] - values[1];
}

void clock_check_log(const struct kernel *kernel, const struct tsc_clock *clocks, const char *log)
{
	struct range raw = {0}, kmsg = {0};
	unsigned long long tsc, ns, width, written;
	unsigned int cpu;

	for (const char *at = log; (at = strstr(at, "sonde-clock: ")); at++) {
		uint64_t stamp = log_stamp(log, raw.n);

		if (sscanf(at, "sonde-clock: %u %llu %llu %llu %llu", &cpu, &tsc, &ns, &width,
			   &written) != 5 ||
		    cpu >= BOOT_CPUS || raw.n >= MAX_SAMPLES)
			break;
		extend(&raw, (int64_t)(tsc_clock_ns(&clocks[cpu], tsc) - ns));
		if (stamp)
			extend(&kmsg, (int64_t)(stamp - tsc_clock_ns(&clocks[cpu], written)) +
					      sched_clock_begin(kernel));
	}
	ok(raw.n >= 4 && kmsg.n == raw.n,
	   "the guest read its clocks on both vCPUs (%u times, %u messages)", raw.n, kmsg.n);
	ok(raw.max - raw.min < RAW_TOLERANCE_NS,
	   "the trace clock keeps its distance to CLOCK_MONOTONIC_RAW");
	tap_diag("trace clock minus CLOCK_MONOTONIC_RAW: %lld to %lld ns", (long long)raw.min,
		 (long long)raw.max);
	/* The guest may have been interrupted between the two readings, but not each time. */
	ok(kmsg.min > -LOG_UNIT_NS && kmsg.min < LOG_DELAY_NS,
	   "the log's time stamps are trace clock minus the start of sched_clock()");
	tap_diag("log time minus trace clock just before: %lld to %lld ns", (long long)kmsg.min,
		 (long long)kmsg.max);
}
