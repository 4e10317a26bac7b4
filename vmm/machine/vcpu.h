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
#include "vmm/devices/bus.h"
#include "vmm/kvm/kvm.h"
#include "vmm/machine/stop-gate.h"
#include "vmm/machine/trace-clock.h"
#include "vmm/memory/memory.h"

/* What the vCPUs of one machine share. The machine embeds it, and fills it before vcpu_init(). */
struct vcpu_group {
	struct kvm kvm;
	bool slow_kvm;     /* the environment says that KVM is the software KVM host of the tests */
	bool tsc_deadline; /* KVM has that timer of the local APIC, for all vCPUs or for none */
	unsigned int nr_vcpus;
	struct guest_memory memory;
	struct bus ports, mmio;
	struct trace_clock clock;
	struct stop_gate gate;
	atomic_bool ending; /* vCPU threads leave */

	_Atomic(guest_trap_fn *) trap_fn;
	void *trap_arg;
	uint64_t trap_rip_bias; /* how far RIP is beyond an OUT when it exits: 0, or its size */

	/* Calls to the machine, with `owner`, on a vCPU's thread. */
	struct {
		/* After each access to a port. Returns whether this vCPU must not run again. */
		bool (*port_io)(void *owner);
		void (*triple_fault)(void *owner);
		/* KVM failed. */
		void (*fail)(void *owner, const struct error *err);
	} on;
	void *owner;
};

/*
 * One vCPU and its thread. Its registers are in run->s.regs.regs after every KVM_RUN; changes made
 * there with the dirty bit are loaded by the next one.
 */
struct vcpu {
	struct vcpu_group *group;
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

/*
 * Create the KVM vCPU; it has no thread yet. The group's kvm and gate must be ready. On an error
 * the caller calls vcpu_deinit() as well.
 */
int vcpu_init(struct vcpu *vcpu, struct vcpu_group *group, unsigned int index, struct error *err);
/* After its thread has ended. */
void vcpu_deinit(struct vcpu *vcpu);

/* Set CPUID, MSRs and local APIC; of the first vCPU also where it starts. */
int vcpu_setup(struct vcpu *vcpu, struct kvm_cpuid2 *cpuid, const struct boot_entry *entry,
	       struct error *err);

/* Start the thread. It runs the guest until group->ending is set or this vCPU ends the run. */
int vcpu_start(struct vcpu *vcpu, struct error *err);
/* Make the thread leave the guest, and see group->ending or a requested stop. Any thread. */
void vcpu_kick(struct vcpu *vcpu);
/* After group->ending is set and vcpu_kick(). */
void vcpu_join(struct vcpu *vcpu);

/* How vcpu_enter() ended. */
enum vcpu_exit {
	VCPU_EXIT_HANDLED,
	VCPU_EXIT_INTERRUPTED,
	VCPU_EXIT_OVER, /* this vCPU must not run again */
};
/* Own thread: one KVM_RUN, and what its exit asks for. */
enum vcpu_exit vcpu_enter(struct vcpu *vcpu);
/* Own thread: let KVM finish the I/O instruction of the last exit without entering the guest, so
 * that registers are final. */
void vcpu_complete_io(struct vcpu *vcpu);

/* Own thread: an OUT to GUEST_TRAP_PORT. False if no handler takes it. */
bool vcpu_take_trap(struct vcpu *vcpu);

/* Registers of a stopped vCPU, or of the caller's own. */
void vcpu_get_regs(const struct vcpu *vcpu, struct guest_regs *regs);
void vcpu_set_regs(struct vcpu *vcpu, const struct guest_regs *regs);
int vcpu_get_sregs(const struct vcpu *vcpu, struct guest_sregs *sregs, struct error *err);

/* Once per process: install the handler of the signal that kicks. */
void vcpu_install_kick_signal(void);

#endif
