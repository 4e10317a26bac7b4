/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_VCPU_H
#define SONDE_VMM_MACHINE_VCPU_H

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"
#include "vmm/boot/boot.h"
#include "vmm/kvm/kvm.h"
#include "vmm/machine/stop-gate.h"

struct vm;

/*
 * One vCPU and its thread. Its registers are in run->s.regs.regs after every KVM_RUN; changes made
 * there with the dirty bit are loaded by the next one.
 */
struct vcpu {
	struct vm *vm;
	unsigned int index;
	int fd;
	struct kvm_run *run;
	pthread_t thread;
	bool has_thread;
	_Atomic pid_t tid;
	struct stop_member member;
	/* The last exit was an I/O instruction that the next KVM_RUN completes. */
	bool io_pending;
	struct guest_trap *trap; /* being handled; its registers are then the vCPU's */
	atomic_bool in_trap;
	_Atomic uint64_t exits;
};

/* Creates the KVM vCPU; no thread yet. vm->kvm and vm->gate must be ready. */
int vcpu_init(struct vcpu *vcpu, struct vm *vm, unsigned int index, struct error *err);
/* After its thread has ended. */
void vcpu_deinit(struct vcpu *vcpu);

/* Give it CPUID, MSRs and local APIC; the first vCPU also its place to start. */
int vcpu_setup(struct vcpu *vcpu, struct kvm_cpuid2 *cpuid, const struct boot_entry *entry,
	       struct error *err);

/* Start the thread. It runs the guest until the vm is ending or this vCPU ended it. */
int vcpu_start(struct vcpu *vcpu, struct error *err);
/* After vm->ending is set: make the thread notice, and wait for it. */
void vcpu_kick(struct vcpu *vcpu);
void vcpu_join(struct vcpu *vcpu);

/* How far vcpu_enter() came. */
enum vcpu_exit {
	VCPU_EXIT_HANDLED,
	VCPU_EXIT_DEBUG, /* a single step is done */
	VCPU_EXIT_INTERRUPTED,
	VCPU_EXIT_OVER, /* this vCPU must not run again */
};
/* Own thread: one KVM_RUN, and what it asks for. */
enum vcpu_exit vcpu_enter(struct vcpu *vcpu);
/* Own thread: let KVM finish the I/O instruction that caused the last exit, so that registers are
 * final, without entering the guest. */
void vcpu_complete_io(struct vcpu *vcpu);

/* Own thread: an OUT to GUEST_TRAP_PORT. False if nobody wants it. */
bool vcpu_take_trap(struct vcpu *vcpu);
/* Own thread, in a trap handler: execute one instruction from *regs, see guest.h. */
int vcpu_step(struct vcpu *vcpu, struct guest_regs *regs, struct error *err);

/* Registers of a stopped vCPU, or of the caller's own. */
void vcpu_get_regs(const struct vcpu *vcpu, struct guest_regs *regs);
void vcpu_set_regs(struct vcpu *vcpu, const struct guest_regs *regs);
int vcpu_get_sregs(const struct vcpu *vcpu, struct guest_sregs *sregs, struct error *err);

/* Once per process: the signal that kicks. */
void vcpu_install_kick_signal(void);

#endif
