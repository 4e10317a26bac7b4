/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU's registers, its traps, and its single steps. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include "vmm/machine/vcpu.h"

enum {
	MSR_LSTAR_NUMBER = 0xc0000082,
	MSR_KERNEL_GS_BASE_NUMBER = 0xc0000102,
	/* Interruptions and I/O exits of one instruction, before a step counts as failed. */
	MAX_STEP_ENTRIES = 1000,
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
		return false; /* a trap that a handler steps over is not for the handler */
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

static int set_stepping(struct vcpu *vcpu, bool on, struct error *err)
{
	struct kvm_guest_debug debug = {0};

	if (on)
		debug.control =
			KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP | KVM_GUESTDBG_BLOCKIRQ;
	if (ioctl(vcpu->fd, KVM_SET_GUEST_DEBUG, &debug) < 0)
		return error_set(err, errno, "KVM: cannot single-step vCPU %u: %s", vcpu->index,
				 strerror(errno));
	return 0;
}

static enum vcpu_exit run_one_instruction(struct vcpu *vcpu)
{
	enum vcpu_exit exit;
	int tries = 0;

	do {
		/* A stop that is requested meanwhile waits for this one instruction. */
		__atomic_store_n(&vcpu->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
		exit = vcpu_enter(vcpu);
	} while ((exit == VCPU_EXIT_INTERRUPTED || exit == VCPU_EXIT_HANDLED) &&
		 ++tries < MAX_STEP_ENTRIES);
	return exit;
}

/* Not through the shared page: KVM reads RIP when stepping is switched on. */
static int load_regs(struct vcpu *vcpu, const struct guest_regs *regs, struct error *err)
{
	if (ioctl(vcpu->fd, KVM_SET_REGS, regs) < 0)
		return error_set(err, errno, "KVM: cannot set the registers of vCPU %u: %s",
				 vcpu->index, strerror(errno));
	vcpu->run->kvm_dirty_regs &= ~(uint64_t)KVM_SYNC_X86_REGS;
	return 0;
}

static int step_from(struct vcpu *vcpu, const struct guest_regs *regs, struct error *err)
{
	enum vcpu_exit exit;
	int ret = load_regs(vcpu, regs, err);

	if (ret)
		return ret;
	ret = set_stepping(vcpu, true, err);
	if (ret)
		return ret;
	exit = run_one_instruction(vcpu);
	ret = set_stepping(vcpu, false, err);
	if (ret)
		return ret;
	return exit == VCPU_EXIT_DEBUG
		       ? 0
		       : error_set_at(err, EIO, regs->rip, "a single step did not end");
}

int vcpu_step(struct vcpu *vcpu, struct guest_regs *regs, struct error *err)
{
	struct guest_trap *trap = vcpu->trap;
	int ret;

	vcpu_complete_io(vcpu);
	vcpu->trap = NULL;
	ret = step_from(vcpu, regs, err);
	vcpu_get_regs(vcpu, regs);
	vcpu->trap = trap;
	return ret;
}
