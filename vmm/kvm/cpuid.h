/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_CPUID_H
#define SONDE_VMM_KVM_CPUID_H

#include <stdbool.h>
#include <stdint.h>

struct kvm_cpuid2;

/* Features that user space decides about. */
struct cpuid_options {
	bool tsc_deadline; /* KVM_CAP_TSC_DEADLINE_TIMER */
	bool pv_eoi;       /* offer KVM's end of interrupt through shared memory, if KVM has it */
};

/*
 * Turn KVM's supported CPUID (the features of the host's CPU that KVM virtualises, and the
 * hypervisor's own leaves) into that of vCPU `index` of `nr_vcpus`: one package, one thread per
 * core, APIC ids 0 .. nr_vcpus - 1. Changes only the topology and the features of *options. For the
 * next vCPU it may be called on its own result. Sources: Intel SDM vol. 2, CPUID; AMD APM vol. 3,
 * appendix E.
 */
void cpuid_for_vcpu(struct kvm_cpuid2 *cpuid, unsigned int index, unsigned int nr_vcpus,
		    const struct cpuid_options *options);

/* Once before cpuid_for_vcpu(): add the second level of the topology leaf if KVM does not list it.
 * *cpuid has room for `capacity` entries. */
void cpuid_add_core_level(struct kvm_cpuid2 *cpuid, uint32_t capacity);

/*
 * Width in bits of the guest's physical addresses (leaf 0x80000008): MAXPHYADDR, or
 * GuestPhysAddrSize if the host's nested page tables cover less.
 */
unsigned int cpuid_phys_bits(const struct kvm_cpuid2 *cpuid);

#endif
