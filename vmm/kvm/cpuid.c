/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/kvm/cpuid.h"

#include <asm/kvm_para.h>
#include <linux/kvm.h>

enum {
	LEAF_FEATURES = 1,
	LEAF_CACHES = 4,
	LEAF_TOPOLOGY = 0xb,
	LEAF_TOPOLOGY_V2 = 0x1f,

	ECX1_TSC_DEADLINE = 1 << 24,
	EDX1_HTT = 1 << 28,

	DEFAULT_PHYS_BITS = 36,

	LEVEL_SMT = 1,
	LEVEL_CORE = 2,
	CACHE_TYPE_MASK = 0x1f,
};

static const uint32_t leaf_kvm_features = 0x40000001;
static const uint32_t eax_kvm_pv_eoi = 1u << KVM_FEATURE_PV_EOI;
static const uint32_t leaf_amd_features = 0x80000001;
static const uint32_t leaf_amd_sizes = 0x80000008;
static const uint32_t leaf_amd_caches = 0x8000001d;
static const uint32_t leaf_amd_topology = 0x8000001e;
static const uint32_t ecx1_hypervisor = 1u << 31;
static const uint32_t ecx_amd_cmp_legacy = 1u << 1;

static unsigned int bits_for(unsigned int n)
{
	unsigned int bits = 0;

	while (1u << bits < n)
		bits++;
	return bits;
}

static void features(struct kvm_cpuid_entry2 *e, unsigned int index, unsigned int nr_vcpus,
		     bool tsc_deadline)
{
	e->ebx = (e->ebx & 0xffff) | index << 24 | nr_vcpus << 16;
	e->ecx |= ecx1_hypervisor;
	if (tsc_deadline)
		e->ecx |= ECX1_TSC_DEADLINE;
	else
		e->ecx &= ~(uint32_t)ECX1_TSC_DEADLINE;
	if (nr_vcpus > 1)
		e->edx |= EDX1_HTT;
	else
		e->edx &= ~(uint32_t)EDX1_HTT;
}

/* Caches of level 1 and 2 belong to a core, those of higher levels to the package. */
static void cache_sharing(struct kvm_cpuid_entry2 *e, unsigned int nr_vcpus, bool intel)
{
	uint32_t sharing = (e->eax >> 5 & 7) > 2 ? (1u << bits_for(nr_vcpus)) - 1 : 0;
	uint32_t cores = intel ? (1u << bits_for(nr_vcpus)) - 1 : 0;

	if (e->eax & CACHE_TYPE_MASK)
		e->eax = (e->eax & 0x3fff) | sharing << 14 | cores << 26;
}

static void topology(struct kvm_cpuid_entry2 *e, unsigned int index, unsigned int nr_vcpus)
{
	e->eax = e->ebx = 0;
	e->ecx = e->index;
	e->edx = index;
	if (e->index == 0) {
		e->ebx = 1;
		e->ecx |= LEVEL_SMT << 8;
	} else if (e->index == 1) {
		e->eax = bits_for(nr_vcpus);
		e->ebx = nr_vcpus;
		e->ecx |= LEVEL_CORE << 8;
	}
}

static void amd_features(struct kvm_cpuid_entry2 *e, unsigned int nr_vcpus)
{
	if (nr_vcpus > 1)
		e->ecx |= ecx_amd_cmp_legacy;
	else
		e->ecx &= ~ecx_amd_cmp_legacy;
}

static void amd_topology(struct kvm_cpuid_entry2 *e, unsigned int index)
{
	e->eax = index;
	e->ebx = index; /* core id, one thread */
	e->ecx = 0;     /* node 0 of one */
}

void cpuid_for_vcpu(struct kvm_cpuid2 *cpuid, unsigned int index, unsigned int nr_vcpus,
		    const struct cpuid_options *options)
{
	for (uint32_t i = 0; i < cpuid->nent; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

		if (e->function == LEAF_FEATURES)
			features(e, index, nr_vcpus, options->tsc_deadline);
		else if (e->function == leaf_kvm_features && !options->pv_eoi)
			e->eax &= ~eax_kvm_pv_eoi;
		else if (e->function == LEAF_CACHES)
			cache_sharing(e, nr_vcpus, true);
		else if (e->function == LEAF_TOPOLOGY)
			topology(e, index, nr_vcpus);
		else if (e->function == LEAF_TOPOLOGY_V2)
			e->eax = e->ebx = e->ecx = e->edx = 0; /* empty: the guest uses leaf 0xb */
		else if (e->function == leaf_amd_features)
			amd_features(e, nr_vcpus);
		else if (e->function == leaf_amd_sizes)
			e->ecx = (e->ecx & ~0xf0ffu) | bits_for(nr_vcpus) << 12 | (nr_vcpus - 1);
		else if (e->function == leaf_amd_caches)
			cache_sharing(e, nr_vcpus, false);
		else if (e->function == leaf_amd_topology)
			amd_topology(e, index);
	}
}

unsigned int cpuid_phys_bits(const struct kvm_cpuid2 *cpuid)
{
	for (uint32_t i = 0; i < cpuid->nent; i++) {
		uint32_t bits = cpuid->entries[i].eax & 0xff;
		uint32_t guest_bits = cpuid->entries[i].eax >> 16 & 0xff;

		if (cpuid->entries[i].function == leaf_amd_sizes)
			return guest_bits && guest_bits < bits ? guest_bits : bits;
	}
	return DEFAULT_PHYS_BITS;
}

/* KVM may list only the first level of the topology leaf; the cores need a second one. */
void cpuid_add_core_level(struct kvm_cpuid2 *cpuid, uint32_t capacity)
{
	bool has_leaf = false;

	for (uint32_t i = 0; i < cpuid->nent; i++) {
		if (cpuid->entries[i].function != LEAF_TOPOLOGY)
			continue;
		has_leaf = true;
		if (cpuid->entries[i].index == 1)
			return;
	}
	if (has_leaf && cpuid->nent < capacity)
		cpuid->entries[cpuid->nent++] =
			(struct kvm_cpuid_entry2){.function = LEAF_TOPOLOGY,
						  .index = 1,
						  .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX};
}
