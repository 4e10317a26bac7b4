/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/machine/vm.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include "vmm/machine/internal.h"

enum { POLL_INTERVAL_MS = 10 };

const char *vm_status_name(enum vm_status status)
{
	static const char *const names[] = {
		[VM_STATUS_PRELAUNCH] = "prelaunch",
		[VM_STATUS_RUNNING] = "running",
		[VM_STATUS_PAUSED] = "paused",
		[VM_STATUS_SHUTDOWN] = "shutdown",
		[VM_STATUS_GUEST_PANICKED] = "guest-panicked",
		[VM_STATUS_INTERNAL_ERROR] = "internal-error",
	};

	return names[status];
}

enum vm_status vm_status(const struct vm *vm)
{
	return (enum vm_status)atomic_load(&vm->status);
}

void vm_set_status(struct vm *vm, enum vm_status status)
{
	if (vm_status(vm) == status)
		return;
	atomic_store(&vm->status, (int)status);
	for (size_t i = 0; i < vm->nr_listeners; i++)
		vm->listeners[i].fn(vm->listeners[i].arg, status);
}

int vm_listen(struct vm *vm, vm_status_fn *fn, void *arg)
{
	if (vm->nr_listeners == VM_MAX_LISTENERS)
		return -ENOSPC;
	vm->listeners[vm->nr_listeners].fn = fn;
	vm->listeners[vm->nr_listeners++].arg = arg;
	return 0;
}

void vm_set_poll(struct vm *vm, vm_poll_fn *fn, void *arg)
{
	vm->poll = fn;
	vm->poll_arg = arg;
}

/* False if another thread polls now. */
static bool try_poll(struct vm *vm)
{
	if (pthread_mutex_trylock(&vm->poll_lock))
		return false;
	if (atomic_load(&vm->polling) && vm->poll(vm->poll_arg))
		atomic_store(&vm->polling, false);
	pthread_mutex_unlock(&vm->poll_lock);
	return true;
}

/* On a vCPU's thread, until it has polled itself: the poll of another thread may have begun too
 * early, or wait for this vCPU to stop. */
static void poll_on_vcpu(struct vm *vm)
{
	while (atomic_load(&vm->polling) && !try_poll(vm)) {
		stop_gate_stop(&vm->group.gate);
		stop_gate_resume(&vm->group.gate);
		sched_yield();
	}
}

static void poll_on_timer(void *arg)
{
	struct vm *vm = arg;

	if (atomic_load(&vm->polling))
		try_poll(vm);
	if (!atomic_load(&vm->polling)) {
		event_source_remove(vm->poll_timer);
		vm->poll_timer = NULL;
	}
}

static int start_polling(struct vm *vm, struct error *err)
{
	if (!vm->poll)
		return 0;
	atomic_store(&vm->polling, true);
	return event_loop_add_timer(vm->loop, POLL_INTERVAL_MS, poll_on_timer, vm, &vm->poll_timer,
				    err);
}

int vm_start(struct vm *vm, struct error *err)
{
	int ret;

	/* Owned until every thread exists, so that all vCPUs begin together. */
	stop_gate_stop(&vm->group.gate);
	vm->started = true;
	ret = start_polling(vm, err);
	for (unsigned int i = 0; ret == 0 && i < vm->group.nr_vcpus; i++)
		ret = vcpu_start(&vm->vcpus[i], err);
	if (ret == 0)
		vm_set_status(vm, VM_STATUS_RUNNING);
	else
		atomic_store(&vm->group.ending, true);
	stop_gate_resume(&vm->group.gate);
	return ret;
}

static bool is_over(const struct vm *vm)
{
	return !vm->started || atomic_load(&vm->group.ending) || atomic_load(&vm->end);
}

int vm_pause(struct vm *vm, struct error *err)
{
	if (is_over(vm))
		return error_set(err, EINVAL, "the guest is not running");
	if (vm->paused)
		return error_set(err, EALREADY, "the guest is paused already");
	stop_gate_stop(&vm->group.gate);
	vm->paused = true;
	vm_set_status(vm, VM_STATUS_PAUSED);
	return 0;
}

static void unpause(struct vm *vm)
{
	vm->paused = false;
	/* Without this the guest's watchdogs take the pause for a lockup. It fails, without harm,
	 * if the guest does not use kvmclock. */
	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++)
		ioctl(vm->vcpus[i].fd, KVM_KVMCLOCK_CTRL, 0);
	stop_gate_resume(&vm->group.gate);
}

int vm_resume(struct vm *vm, struct error *err)
{
	if (is_over(vm))
		return error_set(err, EINVAL, "the guest is not running");
	if (!vm->paused)
		return error_set(err, EALREADY, "the guest is not paused");
	vm_ask_panic(vm);
	unpause(vm);
	vm_set_status(vm, vm_panic_reason(vm) ? VM_STATUS_GUEST_PANICKED : VM_STATUS_RUNNING);
	return 0;
}

void vm_request_end(struct vm *vm, enum vm_end reason)
{
	int none = VM_END_NONE;

	atomic_compare_exchange_strong(&vm->end, &none, (int)reason);
	event_loop_quit(vm->loop, (int)reason);
}

enum vm_end vm_end_reason(const struct vm *vm)
{
	enum vm_end end = (enum vm_end)atomic_load(&vm->end);
	bool by_guest =
		end == VM_END_POWER_OFF || end == VM_END_REBOOT || end == VM_END_TRIPLE_FAULT;

	return by_guest && vm_panic_reason(vm) ? VM_END_PANIC : end;
}

static bool on_port_io(void *owner)
{
	struct vm *vm = owner;

	if (atomic_load_explicit(&vm->polling, memory_order_relaxed))
		poll_on_vcpu(vm);
	return atomic_load(&vm->end);
}

static void on_triple_fault(void *owner)
{
	vm_request_end(owner, VM_END_TRIPLE_FAULT);
}

static void on_failure(void *owner, const struct error *err)
{
	struct vm *vm = owner;

	pthread_mutex_lock(&vm->failure_lock);
	if (!vm->failure.code)
		vm->failure = *err;
	pthread_mutex_unlock(&vm->failure_lock);
	vm_request_end(vm, VM_END_FAILED);
}

void vm_connect_vcpus(struct vm *vm)
{
	vm->group.owner = vm;
	vm->group.on.port_io = on_port_io;
	vm->group.on.triple_fault = on_triple_fault;
	vm->group.on.fail = on_failure;
}

const struct error *vm_failure(const struct vm *vm)
{
	return &vm->failure;
}

static enum vm_status final_status(const struct vm *vm)
{
	switch (vm_end_reason(vm)) {
	case VM_END_PANIC:
		return VM_STATUS_GUEST_PANICKED;
	case VM_END_FAILED:
		return VM_STATUS_INTERNAL_ERROR;
	default:
		return VM_STATUS_SHUTDOWN;
	}
}

void vm_finish(struct vm *vm)
{
	if (vm->finished)
		return;
	vm->finished = true;
	atomic_store(&vm->group.ending, true);
	if (vm->paused)
		unpause(vm);
	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++)
		vcpu_kick(&vm->vcpus[i]);
	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++)
		vcpu_join(&vm->vcpus[i]);
	atomic_store(&vm->polling, false);
	event_source_remove(vm->poll_timer);
	vm->poll_timer = NULL;
	console_flush(vm->console);
	vm_ask_panic(vm);
	vm_set_status(vm, final_status(vm));
}

const struct boot_info *vm_boot_info(const struct vm *vm)
{
	return &vm->entry.info;
}

struct guest *vm_guest(struct vm *vm)
{
	return &vm->guest;
}

/* What the end of tracing leaves unknown is as it was before. */
void vm_ask_panic(struct vm *vm)
{
	enum vm_panic_answer answer;

	if (!vm->ask_panic || vm->panic_answer == VM_PANIC_YES || !console_panic(vm->console))
		return;
	answer = vm->ask_panic(vm->user_arg);
	if (answer != VM_PANIC_UNKNOWN)
		vm->panic_answer = answer;
}

bool vm_panic_is_certain(const struct vm *vm)
{
	return atomic_load(&vm->panic_driver) ? atomic_load(&vm->panicked)
					      : vm->panic_answer == VM_PANIC_YES;
}

const char *vm_panic_reason(const struct vm *vm)
{
	const char *reason;

	if (!atomic_load(&vm->panic_driver) && vm->panic_answer == VM_PANIC_UNKNOWN)
		return console_panic(vm->console);
	if (!vm_panic_is_certain(vm))
		return NULL;
	reason = console_reported_panic(vm->console);
	return reason ? reason : "no message on its console";
}

uint64_t vm_console_lost(const struct vm *vm)
{
	return console_lost(vm->console);
}

pid_t vm_vcpu_thread_id(const struct vm *vm, unsigned int vcpu)
{
	return vcpu < vm->group.nr_vcpus ? atomic_load(&vm->vcpus[vcpu].tid) : 0;
}

uint64_t vm_exits(const struct vm *vm)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++)
		sum += atomic_load_explicit(&vm->vcpus[i].exits, memory_order_relaxed);
	return sum;
}
