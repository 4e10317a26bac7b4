/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/run/owner.h"

#include <errno.h>
#include <stdlib.h>
#include "vmm/monitor/verbs.h"
#include "vmm/monitor/monitor.h"
#include "vmm/machine/vm.h"

struct monitor_vm {
	struct vm *vm;
	enum vm_status status; /* as clients know it */
	struct monitor *monitor;
	struct monitor_machine machine;
	struct monitor_memory memory;
	struct monitor_trace trace;
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

static void fill(struct monitor_vm *self, const struct monitor_trace_ops *trace, void *trace_arg)
{
	self->machine = (struct monitor_machine){
		.status = machine_status,
		.pause = machine_pause,
		.resume = machine_resume,
		.quit = machine_quit,
		.thread_id = machine_thread_id,
		.arg = self->vm,
		.guest = vm_guest(self->vm),
	};
	self->memory = (struct monitor_memory){
		.guest = vm_guest(self->vm),
		.translate = trace ? trace->translate : NULL,
		.arg = trace_arg,
	};
	self->trace = (struct monitor_trace){
		.ops = trace,
		.arg = trace_arg,
		.monitor = self->monitor,
	};
}

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
	ret = monitor_create(loop, path, &self->monitor, err);
	if (ret) {
		free(self);
		return ret;
	}
	fill(self, trace, trace_arg);
	ret = monitor_verbs_vm_register(self->monitor, &self->machine, err);
	if (!ret)
		ret = monitor_verbs_memory_register(self->monitor, &self->memory, err);
	if (!ret)
		ret = monitor_verbs_trace_register(self->monitor, &self->trace, err);
	if (!ret && vm_listen(vm, on_status, self) < 0)
		ret = error_set(err, ENOSPC, "the virtual machine has too many listeners");
	if (ret)
		monitor_vm_destroy(self);
	else
		*out = self;
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
