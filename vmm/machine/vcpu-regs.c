/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU's registers and its traps. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include "vmm/machine/vcpu.h"

enum {
	MSR_LSTAR_NUMBER = 0xc0000082,
	MSR_KERNEL_GS_BASE_NUMBER = 0xc0000102,
};

_Static_assert(sizeof(struct guest_regs) == sizeof(struct kvm_regs), "same registers");
_Static_assert(offsetof(struct guest_regs, rsp) == offsetof(struct kvm_regs, rsp), "same order");
_Static_assert(offsetof(struct guest_regs, r8) == offsetof(struct kvm_regs, r8), "same order");
_Static_assert(offsetof(struct guest_regs, rip) == offsetof(struct kvm_regs, rip), "same order");

void vcpu_get_regs(const struct vcpu *vcpu, struct guest_regs *regs)
{
	if (vcpu->trap)
		*regs = vcpu->trap->regs;
	else
		memcpy(regs, &vcpu->run->s.regs.regs, sizeof(*regs));
}

void vcpu_set_regs(struct vcpu *vcpu, const struct guest_regs *regs)
{
	if (vcpu->trap) {
		vcpu->trap->regs = *regs;
		return;
	}
	memcpy(&vcpu->run->s.regs.regs, regs, sizeof(*regs));
	vcpu->run->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
}

int vcpu_get_sregs(const struct vcpu *vcpu, struct guest_sregs *out, struct error *err)
{
	struct kvm_mp_state activity;
	struct kvm_sregs sregs;
	union kvm_msr_pair u = {.room = {0}};
	struct kvm_msr_entry *entries = u.msrs.entries;

	u.msrs.nmsrs = 2;
	entries[0].index = (uint32_t)MSR_KERNEL_GS_BASE_NUMBER;
	entries[1].index = (uint32_t)MSR_LSTAR_NUMBER;
	if (ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) < 0 ||
	    ioctl(vcpu->fd, KVM_GET_MP_STATE, &activity) < 0 ||
	    ioctl(vcpu->fd, KVM_GET_MSRS, &u.msrs) != (int)u.msrs.nmsrs)
		return error_set(err, errno, "KVM: cannot read the registers of vCPU %u: %s",
				 vcpu->index, strerror(errno));
	*out = (struct guest_sregs){
		.cr0 = sregs.cr0,
		.cr3 = sregs.cr3,
		.cr4 = sregs.cr4,
		.efer = sregs.efer,
		.gs_base = sregs.gs.base,
		.kernel_gs_base = entries[0].data,
		.lstar = entries[1].data,
		.idt_base = sregs.idt.base,
		.cpl = sregs.ss.dpl,
		.halted = activity.mp_state != KVM_MP_STATE_RUNNABLE,
	};
	return 0;
}

bool vcpu_take_trap(struct vcpu *vcpu)
{
	struct vcpu_group *group = vcpu->group;
	struct guest_trap trap;
	struct guest_regs before;
	guest_trap_fn *fn;
	bool handled;

	if (atomic_load(&vcpu->in_trap))
		return false; /* a piece of a repeated OUT, which is being completed */
	/* The flag first: then set_trap_handler() waits for this vCPU, or this vCPU sees the
	 * change. */
	atomic_store(&vcpu->in_trap, true);
	fn = atomic_load(&group->trap_fn);
	if (!fn) {
		atomic_store(&vcpu->in_trap, false);
		return false;
	}
	vcpu_get_regs(vcpu, &before);
	before.rip -= group->trap_rip_bias;
	trap = (struct guest_trap){
		.vcpu = vcpu->index, .time_ns = trace_clock_ns(&group->clock), .regs = before};
	vcpu->trap = &trap;
	handled = fn(group->trap_arg, &trap);
	vcpu->trap = NULL;
	if (handled) {
		/* KVM skips the OUT on the next entry if RIP is still there, so let it skip now. */
		if (trap.regs.rip == before.rip)
			vcpu_complete_io(vcpu);
		vcpu_set_regs(vcpu, &trap.regs);
	}
	atomic_store(&vcpu->in_trap, false);
	return handled;
}
