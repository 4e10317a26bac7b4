/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run/owner.h"

#include <errno.h>

static const char *owner_status(void *arg)
{
	const struct run_owner *owner = arg;

	return vm_status_name(vm_status(owner->vm));
}

static int owner_pause(void *arg, struct error *err)
{
	const struct run_owner *owner = arg;

	return vm_pause(owner->vm, err);
}

static int owner_resume(void *arg, struct error *err)
{
	const struct run_owner *owner = arg;

	return vm_resume(owner->vm, err);
}

static void owner_quit(void *arg)
{
	const struct run_owner *owner = arg;
	bool by_signal = recorder_signal(owner->recorder);

	vm_request_end(owner->vm, by_signal ? VM_END_SIGNAL : VM_END_QUIT);
}

static pid_t owner_thread_id(void *arg, unsigned int vcpu)
{
	const struct run_owner *owner = arg;

	return vm_vcpu_thread_id(owner->vm, vcpu);
}

const struct monitor_guest_ops run_owner_ops = {
	.status = owner_status,
	.pause = owner_pause,
	.resume = owner_resume,
	.pauses = true,
	.quit = owner_quit,
	.thread_id = owner_thread_id,
};

/* The words of QEMU's ShutdownCause (qapi/run-state.json). */
static const char *shutdown_cause(enum vm_end end)
{
	switch (end) {
	case VM_END_POWER_OFF:
		return "guest-shutdown";
	case VM_END_REBOOT:
	case VM_END_TRIPLE_FAULT:
		return "guest-reset";
	case VM_END_PANIC:
		return "guest-panic";
	case VM_END_QUIT:
		return "host-qmp-quit";
	case VM_END_SIGNAL:
		return "host-signal";
	default:
		return "host-error";
	}
}

static void on_status(void *arg, enum vm_status status)
{
	struct run_owner *owner = arg;
	struct recorder *recorder = owner->recorder;

	if (status == VM_STATUS_PAUSED)
		recorder_event(recorder, "STOP", NULL);
	else if (status == VM_STATUS_RUNNING ||
		 (status == VM_STATUS_GUEST_PANICKED && owner->status == VM_STATUS_PAUSED))
		recorder_event(recorder, "RESUME", NULL);
	else if (status == VM_STATUS_GUEST_PANICKED)
		recorder_event(recorder, "GUEST_PANICKED", json_pack("{s:s}", "action", "run"));
	owner->status = status;
}

int run_owner_listen(struct run_owner *owner, struct error *err)
{
	owner->status = vm_status(owner->vm);
	if (vm_listen(owner->vm, on_status, owner) < 0)
		return error_set(err, ENOSPC, "the virtual machine has too many listeners");
	return 0;
}

void run_owner_shutdown(struct run_owner *owner)
{
	enum vm_end end = vm_end_reason(owner->vm);
	const char *cause = shutdown_cause(end);

	if (end != VM_END_NONE)
		recorder_event(owner->recorder, "SHUTDOWN",
			       json_pack("{s:b,s:s}", "guest", cause[0] == 'g', "reason", cause));
}
