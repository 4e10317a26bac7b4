/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_INTERNAL_H
#define SONDE_VMM_MACHINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "vmm/boot/boot.h"
#include "vmm/console/console.h"
#include "vmm/devices/device.h"
#include "vmm/loop/event-loop.h"
#include "vmm/machine/vcpu.h"
#include "vmm/machine/vm.h"
#include "vmm/memory/scratch.h"

enum { VM_MAX_LISTENERS = 4, VM_MAX_DEVICES = 16 };

struct vm {
	struct guest guest; /* first: guest operations get here by it */
	struct vcpu_group group;
	struct vcpu *vcpus; /* group.nr_vcpus */
	struct scratch_memory scratch;
	struct device_host device_host;
	void *devices[VM_MAX_DEVICES]; /* of each row of the registry, NULL before it is created */
	struct console *console;
	/*
	 * A message on the console is only a hint: any user of the guest can print it. It counts
	 * unless the guest has a driver that reports panics, or its memory says otherwise.
	 */
	atomic_bool panic_driver, panicked;
	enum vm_panic_answer panic_answer; /* main thread; YES stays */
	bool panic_told; /* to the machine's owner */
	struct event_source *panic_timer;
	struct boot_entry entry;

	struct event_loop *loop;
	vm_poll_fn *poll; /* NULL: nothing is polled */
	void *poll_arg;
	struct event_source *poll_timer;
	pthread_mutex_t poll_lock;
	atomic_bool polling; /* `poll` has not returned true yet */

	_Atomic int status; /* enum vm_status */
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
	enum vm_panic_answer (*ask_panic)(void *arg);
	void *user_arg;
};

/* The struct guest of this VMM (guest.c), to be copied; capabilities and vCPUs are still 0. */
extern const struct guest vmm_guest;

/* The device models of the registry, and the console (devices.c). Errors are for the user. */
int vm_create_devices(struct vm *vm, const struct vm_config *config, struct error *err);
/* NULL-safe as to each of them. */
void vm_destroy_devices(struct vm *vm);

/* Before vcpu_init(): have the vCPUs call the machine (vm.c). */
void vm_connect_vcpus(struct vm *vm);

/* Main thread: have the guest's memory asked whether it has panicked. */
void vm_ask_panic(struct vm *vm);
/* Main thread: change the status and call the listeners. */
void vm_set_status(struct vm *vm, enum vm_status status);

#endif
