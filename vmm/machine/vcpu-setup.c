/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU's first state: CPUID, MSRs, local APIC, and the first vCPU's registers. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include "introspect/guest/control.h"
#include "vmm/kvm/cpuid.h"
#include "vmm/machine/vcpu.h"

enum {
	MSR_MISC_ENABLE = 0x1a0,
	MISC_ENABLE_FAST_STRING = 1 << 0,
	MSR_MTRR_DEF_TYPE = 0x2ff,
	MTRR_ENABLED_WRITE_BACK = 1 << 11 | 6,

	LAPIC_LVT_LINT0 = 0x350,
	LAPIC_LVT_LINT1 = 0x360,
	LVT_MODE_NMI = 4 << 8,
	LVT_MODE_EXTINT = 7 << 8,

	SEGMENT_CODE_RX = 0xb,
	SEGMENT_DATA_RW = 0x3,
	SEGMENT_TSS_BUSY = 0xb,

	RFLAGS_FIXED = 1 << 1,
};

static int ioctl_error(const struct vcpu *vcpu, const char *what, struct error *err)
{
	return error_set(err, errno, "KVM: cannot set the %s of vCPU %u: %s", what, vcpu->index,
			 strerror(errno));
}

static int set_cpuid(struct vcpu *vcpu, struct kvm_cpuid2 *cpuid, struct error *err)
{
	const struct cpuid_options options = {
		.tsc_deadline = vcpu->group->tsc_deadline,
		/* QEMU's emulation of SVM loses timer ticks with it, and the guest stalls. */
		.pv_eoi = !vcpu->group->slow_kvm,
	};

	cpuid_for_vcpu(cpuid, vcpu->index, vcpu->group->nr_vcpus, &options);
	if (ioctl(vcpu->fd, KVM_SET_CPUID2, cpuid) < 0)
		return ioctl_error(vcpu, "CPUID", err);
	return 0;
}

static int set_msrs(struct vcpu *vcpu, struct error *err)
{
	union kvm_msr_pair u = {.room = {0}};
	struct kvm_msr_entry *entries = u.msrs.entries;

	/* As firmware leaves them: fast strings; all memory is write-back. */
	u.msrs.nmsrs = 2;
	entries[0].index = MSR_MISC_ENABLE;
	entries[0].data = MISC_ENABLE_FAST_STRING;
	entries[1].index = MSR_MTRR_DEF_TYPE;
	entries[1].data = MTRR_ENABLED_WRITE_BACK;
	if (ioctl(vcpu->fd, KVM_SET_MSRS, &u.msrs) < 0)
		return ioctl_error(vcpu, "MSRs", err);
	return 0;
}

static void put_lapic_register(struct kvm_lapic_state *lapic, size_t offset, uint32_t value)
{
	memcpy(lapic->regs + offset, &value, sizeof(value));
}

/* The wiring of a PC: 8259 on LINT0, NMI on LINT1 (Intel MP specification 1.4, section 3.6.2). */
static int set_lapic(struct vcpu *vcpu, struct error *err)
{
	struct kvm_lapic_state lapic;

	if (ioctl(vcpu->fd, KVM_GET_LAPIC, &lapic) < 0)
		return ioctl_error(vcpu, "local APIC", err);
	put_lapic_register(&lapic, LAPIC_LVT_LINT0, LVT_MODE_EXTINT);
	put_lapic_register(&lapic, LAPIC_LVT_LINT1, LVT_MODE_NMI);
	if (ioctl(vcpu->fd, KVM_SET_LAPIC, &lapic) < 0)
		return ioctl_error(vcpu, "local APIC", err);
	return 0;
}

static struct kvm_segment flat_segment(uint16_t selector, uint8_t type, bool code)
{
	return (struct kvm_segment){.limit = 0xffffffff,
				    .selector = selector,
				    .type = type,
				    .present = 1,
				    .s = 1,
				    .l = code,
				    .db = !code,
				    .g = 1};
}

/* The state that the 64-bit boot protocol requires (boot.rst, "64-bit Boot Protocol"). */
static int set_boot_sregs(struct vcpu *vcpu, const struct boot_entry *entry, struct error *err)
{
	struct kvm_segment data = flat_segment(BOOT_DATA_SELECTOR, SEGMENT_DATA_RW, false);
	struct kvm_sregs sregs;

	if (ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) < 0)
		return ioctl_error(vcpu, "registers", err);
	sregs.cs = flat_segment(BOOT_CODE_SELECTOR, SEGMENT_CODE_RX, true);
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.tr.type = SEGMENT_TSS_BUSY;
	sregs.tr.present = 1;
	sregs.gdt.base = entry->gdt;
	sregs.gdt.limit = BOOT_GDT_ENTRIES * sizeof(uint64_t) - 1;
	sregs.idt.limit = 0;
	sregs.cr0 = CR0_PE | CR0_ET | CR0_PG;
	sregs.cr3 = entry->page_table;
	sregs.cr4 = CR4_PAE;
	sregs.efer = EFER_LME | EFER_LMA;
	if (ioctl(vcpu->fd, KVM_SET_SREGS, &sregs) < 0)
		return ioctl_error(vcpu, "registers", err);
	return 0;
}

int vcpu_setup(struct vcpu *vcpu, struct kvm_cpuid2 *cpuid, const struct boot_entry *entry,
	       struct error *err)
{
	struct guest_regs regs = {
		.rip = entry->rip, .rsi = entry->boot_params, .rflags = RFLAGS_FIXED};
	int ret = set_cpuid(vcpu, cpuid, err);

	if (ret)
		return ret;
	ret = set_msrs(vcpu, err);
	if (ret)
		return ret;
	ret = set_lapic(vcpu, err);
	/* The other vCPUs wait for the first one's start-up IPI, as in a PC. */
	if (ret || vcpu->index > 0)
		return ret;
	vcpu_set_regs(vcpu, &regs);
	return set_boot_sregs(vcpu, entry, err);
}
