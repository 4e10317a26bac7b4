/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/kvm/cpuid.h"

#include <linux/kvm.h>
#include <stdlib.h>
#include "tests/lib/tap.h"

enum { CAPACITY = 16 };

static struct kvm_cpuid2 *cpuid;

static void setup(void)
{
	static const struct kvm_cpuid_entry2 entries[] = {
		{.function = 1, .ebx = 0x12340800, .ecx = 1u << 24, .edx = 1u << 28},
		{.function = 4, .index = 0, .eax = 0xfc004121}, /* level 1 */
		{.function = 4, .index = 3, .eax = 0xfc000163}, /* level 3 */
		{.function = 4, .index = 4, .eax = 0},
		{.function = 0xb, .index = 0},
		{.function = 0x1f, .index = 0, .eax = 1, .ebx = 2, .ecx = 0x100},
		{.function = 0x40000001, .eax = 0x1000efb},
		{.function = 0x80000001, .ecx = 0x121},
		{.function = 0x80000008, .eax = 0x3030, .ecx = 0x7},
		{.function = 0x8000001e, .eax = 9, .ebx = 9, .ecx = 9},
	};

	cpuid->nent = sizeof(entries) / sizeof(entries[0]);
	for (uint32_t i = 0; i < cpuid->nent; i++)
		cpuid->entries[i] = entries[i];
}

static const struct kvm_cpuid_entry2 *find(uint32_t function, uint32_t index)
{
	static const struct kvm_cpuid_entry2 none;

	for (uint32_t i = 0; i < cpuid->nent; i++) {
		if (cpuid->entries[i].function == function && cpuid->entries[i].index == index)
			return &cpuid->entries[i];
	}
	return &none;
}

static void test_phys_bits(void)
{
	setup();
	is_u64(cpuid_phys_bits(cpuid), 48, "MAXPHYADDR is the width of physical addresses");
	for (uint32_t i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function == 0x80000008)
			cpuid->entries[i].eax = 0x303934;
	is_u64(cpuid_phys_bits(cpuid), 48,
	       "a smaller GuestPhysAddrSize is the width of physical addresses");
	cpuid->nent = 1;
	is_u64(cpuid_phys_bits(cpuid), 36, "a processor without leaf 0x80000008 has 36 bits");
}

static void test_smp(void)
{
	setup();
	cpuid_add_core_level(cpuid, CAPACITY);
	cpuid_add_core_level(cpuid, CAPACITY);
	is_u64(cpuid->nent, 11, "the core level is added once");
	cpuid_for_vcpu(cpuid, 2, 5, &(struct cpuid_options){.pv_eoi = true});
	cpuid_for_vcpu(cpuid, 3, 5, &(struct cpuid_options){.tsc_deadline = true, .pv_eoi = true});
	is_u64(find(1, 0)->ebx, 0x03050800,
	       "leaf 1 has APIC id 3 and 5 vCPUs, and keeps the rest of EBX");
	is_u64(find(1, 0)->ecx, 1u << 31 | 1u << 24,
	       "leaf 1 has the hypervisor bit and the TSC deadline timer");
	is_u64(find(0xb, 0)->ebx, 1, "leaf 0xb has one thread per core");
	is_u64(find(0xb, 0)->ecx, 0x100, "the first level of leaf 0xb is that of threads");
	is_u64(find(0xb, 0)->edx, 3, "leaf 0xb has the x2APIC id");
	is_u64(find(0xb, 1)->eax, 3, "leaf 0xb has three bits for five cores");
	is_u64(find(0xb, 1)->ebx, 5, "leaf 0xb has five cores");
	is_u64(find(0xb, 1)->ecx, 0x201, "the second level of leaf 0xb is that of cores");
	is_u64(find(0x1f, 0)->ebx, 0, "leaf 0x1f is empty, so that the guest uses leaf 0xb");
	is_u64(find(4, 0)->eax, 7u << 26 | 0x121, "the level 1 cache belongs to one core");
	is_u64(find(4, 3)->eax, 7u << 26 | 7 << 14 | 0x163,
	       "the level 3 cache is shared by all cores");
	is_u64(find(4, 4)->eax, 0, "the end of the list of caches stays");
	is_u64(find(0x80000001, 0)->ecx, 0x123,
	       "leaf 0x80000001 says that there is more than one core");
	is_u64(find(0x80000008, 0)->ecx, 0x3004, "leaf 0x80000008 has five cores and three bits");
	is_u64(find(0x8000001e, 0)->eax, 3, "leaf 0x8000001e has the APIC id");
	is_u64(find(0x40000001, 0)->eax, 0x1000efb, "KVM's own features stay");
}

static void test_single(void)
{
	setup();
	cpuid_for_vcpu(cpuid, 0, 1, &(struct cpuid_options){0});
	is_u64(find(1, 0)->edx, 0, "one vCPU has no multi-threading flag");
	is_u64(find(1, 0)->ecx, 1u << 31, "without KVM's TSC deadline timer the guest has none");
	is_u64(find(0x80000001, 0)->ecx, 0x121,
	       "leaf 0x80000001 of one vCPU says that there is one core");
	is_u64(find(0x40000001, 0)->eax, 0x1000ebb, "PV EOI is removed if it is not wanted");
}

int main(void)
{
	cpuid = calloc(1, sizeof(*cpuid) + CAPACITY * sizeof(cpuid->entries[0]));
	if (!cpuid)
		return 1;
	test_smp();
	test_phys_bits();
	test_single();
	free(cpuid);
	return tap_done();
}
