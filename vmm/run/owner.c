/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run/owner.h"

#include <errno.h>
#include <stdlib.h>
#include "vmm/monitor/monitor.h"
#include "vmm/machine/vm.h"

struct monitor_vm {
	struct vm *vm;
	enum vm_status status; /* as clients know it */
	struct monitor *monitor;
	struct monitor_target target;
};

static const char *machine_status(void *arg)
{
	return vm_status_name(vm_status(arg));
}

static int machine_pause(void *arg, struct error *err)
{
	return vm_pause(arg, err);
}

static int machine_resume(void *arg, struct error *err)
{
	return vm_resume(arg, err);
}

static void machine_quit(void *arg)
{
	vm_request_end(arg, VM_END_QUIT);
}

static pid_t machine_thread_id(void *arg, unsigned int vcpu)
{
	return vm_vcpu_thread_id(arg, vcpu);
}

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

static json_t *shutdown_data(enum vm_end end)
{
	const char *cause = shutdown_cause(end);

	return json_pack("{s:b,s:s}", "guest", cause[0] == 'g', "reason", cause);
}

static void on_status(void *arg, enum vm_status status)
{
	struct monitor_vm *self = arg;

	if (status == VM_STATUS_PAUSED)
		monitor_event(self->monitor, "STOP", NULL);
	else if (status == VM_STATUS_RUNNING ||
		 (status == VM_STATUS_GUEST_PANICKED && self->status == VM_STATUS_PAUSED))
		monitor_event(self->monitor, "RESUME", NULL);
	else if (status == VM_STATUS_GUEST_PANICKED)
		monitor_event(self->monitor, "GUEST_PANICKED", json_pack("{s:s}", "action", "run"));
	self->status = status;
}

static const struct monitor_guest_ops machine_ops = {
	.status = machine_status,
	.pause = machine_pause,
	.resume = machine_resume,
	.pauses = true,
	.quit = machine_quit,
	.thread_id = machine_thread_id,
};

int monitor_vm_create(const char *path, struct vm *vm, struct event_loop *loop,
		      const struct monitor_trace_ops *trace, void *trace_arg,
		      struct monitor_vm **out, struct error *err)
{
	struct monitor_vm *self = calloc(1, sizeof(*self));
	int ret;

	if (!self)
		return error_set(err, ENOMEM, "out of memory for the monitor");
	self->vm = vm;
	self->status = vm_status(vm);
	self->target = (struct monitor_target){.guest = vm_guest(vm),
					       .ops = &machine_ops,
					       .arg = vm,
					       .trace = trace,
					       .trace_arg = trace_arg};
	ret = monitor_create(loop, path, &self->target, &self->monitor, err);
	if (ret)
		goto free_self;
	if (vm_listen(vm, on_status, self) < 0) {
		ret = error_set(err, ENOSPC, "the virtual machine has too many listeners");
		goto destroy_monitor;
	}
	*out = self;
	return 0;

destroy_monitor:
	monitor_destroy(self->monitor);
free_self:
	free(self);
	return ret;
}

void monitor_vm_destroy(struct monitor_vm *monitor)
{
	enum vm_end end;

	if (!monitor)
		return;
	end = vm_end_reason(monitor->vm);
	if (end != VM_END_NONE)
		monitor_event(monitor->monitor, "SHUTDOWN", shutdown_data(end));
	monitor_destroy(monitor->monitor);
	free(monitor);
}
