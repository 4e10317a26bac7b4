/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_CPUID_H
#define SONDE_VMM_KVM_CPUID_H

#include <stdbool.h>
#include <stdint.h>

struct kvm_cpuid2;

/* What user space must decide about features. */
struct cpuid_options {
	bool tsc_deadline; /* KVM_CAP_TSC_DEADLINE_TIMER */
	bool pv_eoi;       /* leave the guest KVM's shared-memory end-of-interrupt, if KVM has it */
};

/*
 * Turn what KVM supports (the host CPU's features as far as KVM virtualises them, and the
 * hypervisor leaves) into the CPUID of vCPU `index` of `nr_vcpus`: one package, one thread per
 * core, APIC ids 0 .. nr_vcpus - 1. Only topology and what user space must decide is changed. May
 * be called on its own result for the next vCPU. Source: Intel SDM vol. 2, CPUID; AMD APM vol. 3,
 * appendix E.
 */
void cpuid_for_vcpu(struct kvm_cpuid2 *cpuid, unsigned int index, unsigned int nr_vcpus,
		    const struct cpuid_options *options);

/* Once before cpuid_for_vcpu(): make sure that the topology leaf has its second level. `capacity`
 * is how many entries *cpuid has room for. */
void cpuid_add_core_level(struct kvm_cpuid2 *cpuid, uint32_t capacity);

/*
 * Width in bits of the physical addresses the guest may use, leaf 0x80000008: MAXPHYADDR, or
 * GuestPhysAddrSize where the host's nested page tables reach less far.
 */
unsigned int cpuid_phys_bits(const struct kvm_cpuid2 *cpuid);

#endif
