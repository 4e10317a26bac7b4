/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_LEAVE_H
#define SONDE_VMM_LIBVIRT_RECOVERY_LEAVE_H

#include "introspect/tasks/stack-scan.h"
#include "vmm/libvirt/backend/guest.h"

/*
 * When nothing of a guest is in memory any more that a tracer, now dead, has mapped beside its
 * kernel. Needs nothing of that tracer but what it noted: nobody drains its rings, and writers that
 * wait for room give up after half a second of the guest's time (patcher/engine/ring-engine.c).
 */
struct libvirt_leave {
	struct guest *guest;
	const struct task_stacks *tasks;
	uint64_t gpa; /* of the memory: LIBVIRT_SHMEM_BYTES */
	bool paused;  /* by its administrator: looking again is of no use */
	bool slow;    /* it has to be stopped to be read */

	uint64_t gva;                    /* where the kernel has it; from here on its own */
	bool outside[LIBVIRT_MAX_VCPUS]; /* once was, since the text was put back */
	bool met_task;                   /* a task was seen inside */
};

/*
 * The guest is stopped by the caller, once, and has its text back. It runs in between, and is
 * stopped again afterwards if *held says so, which it may not after an error.
 *
 * Code of ours runs with interrupts off, but for its first instructions and behind its last. So
 * nobody is inside or will return there when each vCPU has been in user mode or idle, which ends
 * what it was interrupted in, and no task was preempted there. A vCPU that does nothing but kernel
 * work has its stack looked at instead.
 *
 * Nobody is where the kernel that was noted does not run any more: the domain was reset.
 *
 * -EBUSY after `patience_ms`: somebody may still be there. -EPROTO: what was noted does not fit the
 * guest. Nothing is changed then, nor otherwise.
 */
int libvirt_leave_wait(struct libvirt_leave *leave, unsigned int patience_ms, bool *held,
		       struct error *err);

#endif
