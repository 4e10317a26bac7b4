/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_SPEED_H
#define SONDE_VMM_KVM_SPEED_H

#include <stdbool.h>
#include <stdint.h>
#include "vmm/kvm/kvm.h"

/*
 * How many instructions per second a guest executes here: some hosts emulate every instruction.
 * Several samples of a counting loop are taken, of 0.5 to 2 ms each, and the best one counts:
 * whatever disturbs a sample (a cold start, another process on the CPU) makes it slower, and
 * nothing makes it faster.
 */
enum {
	/* Slower than any processor since 2000: then KVM is not backed by hardware. */
	KVM_MIN_SPEED = 100000000, /* instructions per second */
	KVM_SPEED_SAMPLES = 10,
};

struct kvm_speed {
	uint32_t loops;       /* rounds that the next sample has to run */
	unsigned int samples; /* that were long enough */
	uint64_t best;        /* instructions per second */
};

void kvm_speed_init(struct kvm_speed *speed);
/*
 * A sample of speed->loops rounds took `ns` (not 0) nanoseconds. Returns whether another sample is
 * needed: until one is as fast as `enough`, or KVM_SPEED_SAMPLES were long enough.
 */
bool kvm_speed_add(struct kvm_speed *speed, uint64_t ns, uint64_t enough);

/*
 * Measure in a machine of its own; returns early once the speed is certainly `enough`. Takes 30 ms
 * at most on real hardware. -EIO if the vCPU does not execute the loop, or what KVM returns.
 */
int kvm_measure_speed(const struct kvm *kvm, uint64_t enough, uint64_t *per_second,
		      struct error *err);

/* -ENOTSUP with a one-line explanation if `per_second` is too slow to run Linux. */
int kvm_check_speed(uint64_t per_second, struct error *err);

#endif
