/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_VM_H
#define SONDE_VMM_MACHINE_VM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "formats/base/error.h"
#include "introspect/guest/guest.h"
#include "vmm/boot/boot.h"
#include "vmm/console/terminal.h"

/*
 * One virtual machine of this VMM: KVM, memory, vCPU threads, devices and the loaded kernel.
 * Functions are for the main thread, which runs the event loop, unless their comment says
 * otherwise.
 */
struct vm;
struct event_loop;

/* What the machine is doing; names as in QMP's RunState. */
enum vm_status {
	VM_STATUS_PRELAUNCH,
	VM_STATUS_RUNNING,
	VM_STATUS_PAUSED,
	VM_STATUS_SHUTDOWN,
	VM_STATUS_GUEST_PANICKED,
	VM_STATUS_INTERNAL_ERROR,
};

/* Why a run ended. */
enum vm_end {
	VM_END_NONE,
	VM_END_POWER_OFF,
	VM_END_REBOOT,
	VM_END_TRIPLE_FAULT,
	VM_END_PANIC,  /* a panic, then a reboot, power-off or triple fault */
	VM_END_QUIT,   /* the user quit, at the monitor or the terminal */
	VM_END_SIGNAL, /* a signal to this process */
	VM_END_FAILED, /* KVM failed; see vm_failure() */
};

enum {
	VM_MAX_VCPUS = 64,
	VM_MIN_RAM_MIB = 64,
	VM_MAX_RAM_MIB = 1024 * 1024,
};

/* Whether the guest's kernel has panicked, according to its own memory. */
enum vm_panic_answer { VM_PANIC_UNKNOWN, VM_PANIC_NO, VM_PANIC_YES };

struct vm_config {
	struct boot_config boot;
	uint64_t ram_mib;
	unsigned int nr_vcpus;
	bool console_stdin;  /* feed standard input to COM1 */
	const char *console; /* COM1's output: a path, or NULL for standard output */
	bool no_console;     /* discard COM1's output, but search it for a panic */
	bool force;          /* accept a KVM that is not backed by hardware */
	/* On the main thread: an escape key, except the one that quits; the guest has panicked. */
	void (*on_key)(void *arg, enum terminal_action action);
	void (*on_panic)(void *arg, const char *reason);
	/* On the main thread, when the console shows a panic message, and at the end: NULL where
	 * nothing of the guest is known. */
	enum vm_panic_answer (*ask_panic)(void *arg);
	void *arg;
};

/*
 * Build the machine: open KVM, load the kernel, create the vCPUs; nothing runs yet. `loop` must
 * outlive the vm; *config need not. Errors are one line for the user:
 *  -EINVAL   vCPUs or RAM out of range
 *  -ENOTSUP  KVM lacks a capability, or is not backed by hardware
 *  others    those of kvm_open(), boot_load() and console_create(), or of KVM
 */
int vm_create(const struct vm_config *config, struct event_loop *loop, struct vm **out,
	      struct error *err);
/* After vm_finish() or instead of vm_start(). NULL-safe. */
void vm_destroy(struct vm *vm);

/* Where the kernel was loaded. Valid from vm_create() on. */
const struct boot_info *vm_boot_info(const struct vm *vm);

/*
 * Poll `fn` on each port-I/O exit (on the vCPU's thread) and every 10 ms (on the main thread),
 * never by two threads at once, until it returns true: for a recorder that waits until the guest's
 * kernel can be found. Before vm_start().
 */
typedef bool vm_poll_fn(void *arg);
void vm_set_poll(struct vm *vm, vm_poll_fn *fn, void *arg);

/* Let the vCPUs run. */
int vm_start(struct vm *vm, struct error *err);

/* Stop every vCPU for good and flush the console. The guest's memory still exists. Idempotent. */
void vm_finish(struct vm *vm);

/* What the machine is doing, and its word in QMP. */
enum vm_status vm_status(const struct vm *vm);     /* any thread */
const char *vm_status_name(enum vm_status status); /* "running", "guest-panicked" ... */

/*
 * The user's pause: no vCPU runs until vm_resume(). -EALREADY if it is so already, -EINVAL if the
 * run is over. Stop and resume of struct guest nest independently, and work on a paused guest too.
 */
int vm_pause(struct vm *vm, struct error *err);
int vm_resume(struct vm *vm, struct error *err);

/* Called on the main thread after every change of vm_status(); up to 4 listeners. */
typedef void vm_status_fn(void *arg, enum vm_status status);
int vm_listen(struct vm *vm, vm_status_fn *fn, void *arg);

/* Any thread: end the run; the event loop returns with `reason`. The first reason counts. */
void vm_request_end(struct vm *vm, enum vm_end reason);
enum vm_end vm_end_reason(const struct vm *vm);
/*
 * The reason in the guest's panic message, NULL if it has not panicked. If the guest has a driver
 * for pvpanic, only its report counts. Otherwise the message on the console does, which any user of
 * the guest can print, unless ask_panic() has denied it.
 */
const char *vm_panic_reason(const struct vm *vm);
/* That there is more than a line on its console: a driver's report, or ask_panic(). */
bool vm_panic_is_certain(const struct vm *vm);
/* The first failure, with VM_END_FAILED. */
const struct error *vm_failure(const struct vm *vm);

/* The guest, as tracer and monitor use it. */
struct guest *vm_guest(struct vm *vm);

/* Kernel thread id of a vCPU's thread, 0 before the thread has started to run. */
pid_t vm_vcpu_thread_id(const struct vm *vm, unsigned int vcpu);

/* Bytes of console output that were lost. */
uint64_t vm_console_lost(const struct vm *vm);

/* Exits of all vCPUs to this process since the start. Any thread. */
uint64_t vm_exits(const struct vm *vm);

#endif
