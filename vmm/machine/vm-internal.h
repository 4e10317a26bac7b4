/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_VM_INTERNAL_H
#define SONDE_VMM_MACHINE_VM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "vmm/devices/acpi-pm.h"
#include "vmm/boot/boot.h"
#include "vmm/devices/bus.h"
#include "vmm/console/console.h"
#include "vmm/loop/event-loop.h"
#include "vmm/kvm/kvm.h"
#include "vmm/memory/memory.h"
#include "vmm/memory/scratch.h"
#include "vmm/devices/serial.h"
#include "vmm/machine/stop-gate.h"
#include "vmm/machine/trace-clock.h"
#include "vmm/machine/vcpu.h"
#include "vmm/machine/vm.h"

enum { VM_MAX_LISTENERS = 4 };

struct vm {
	struct guest guest; /* first: guest operations get here by it */
	struct kvm kvm;
	bool slow_kvm; /* we are told that KVM is the software KVM host of the tests */
	struct guest_memory memory;
	struct scratch_memory scratch;
	struct bus ports, mmio;
	struct acpi_pm pm;
	struct serial serial;
	struct console *console;
	struct boot_entry entry;
	struct trace_clock clock;
	struct stop_gate gate;
	struct vcpu *vcpus;
	unsigned int nr_vcpus;

	struct event_loop *loop;
	vm_poll_fn *poll;
	void *poll_arg;
	struct event_source *poll_timer;
	pthread_mutex_t poll_lock;
	atomic_bool polling; /* the tracer still waits for the kernel */

	_Atomic(guest_trap_fn *) trap_fn;
	void *trap_arg;
	uint64_t trap_rip_bias; /* how far RIP is beyond an OUT when it exits: 0, or its size */

	_Atomic int status; /* enum vm_status */
	atomic_bool ending; /* vCPU threads leave */
	_Atomic int end;    /* enum vm_end */
	bool started, finished, paused;
	pthread_mutex_t failure_lock;
	struct error failure;
	struct {
		vm_status_fn *fn;
		void *arg;
	} listeners[VM_MAX_LISTENERS];
	size_t nr_listeners;
	void (*on_key)(void *arg, enum terminal_action action);
	void (*on_panic)(void *arg, const char *reason);
	void *user_arg;
};

/* The struct guest backend (guest.c), to be copied; capabilities and vCPUs are still 0. */
extern const struct guest vmm_guest;

/* A vCPU's thread: KVM failed. Ends the run with VM_END_FAILED. */
void vm_fail(struct vm *vm, const struct error *err);

/* Main thread: change the status and tell the listeners. */
void vm_set_status(struct vm *vm, enum vm_status status);

/* A vCPU at a port access: poll the tracer, after waiting for its turn. */
void vm_poll(struct vm *vm);

#endif
