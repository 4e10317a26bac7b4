/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registry of device models, a row each, and the functions of the machine that they call. */
#include "vmm/devices/models.h"
#include "vmm/machine/internal.h"

static const struct device_ops *const registry[] = {
	&acpi_pm_device,
	&serial_device,
};
enum { NR_DEVICES = sizeof(registry) / sizeof(registry[0]) };

_Static_assert((int)NR_DEVICES <= (int)VM_MAX_DEVICES, "room for every device");

static void set_irq(void *arg, unsigned int irq, bool level)
{
	struct vm *vm = arg;

	kvm_irq_line(&vm->group.kvm, irq, level);
}

static void power_off(void *arg)
{
	vm_request_end(arg, VM_END_POWER_OFF);
}

static void reset(void *arg)
{
	vm_request_end(arg, VM_END_REBOOT);
}

static bool transmit(void *arg, uint8_t byte)
{
	struct vm *vm = arg;

	return console_put(vm->console, byte);
}

static void on_key(void *arg, enum terminal_action action)
{
	struct vm *vm = arg;

	if (action == TERMINAL_QUIT)
		vm_request_end(vm, VM_END_QUIT);
	else if (vm->on_key)
		vm->on_key(vm->user_arg, action);
}

static void on_panic(void *arg, const char *reason)
{
	struct vm *vm = arg;

	vm_set_status(vm, VM_STATUS_GUEST_PANICKED);
	if (vm->on_panic)
		vm->on_panic(vm->user_arg, reason);
}

int vm_create_devices(struct vm *vm, const struct vm_config *config, struct error *err)
{
	const struct console_config console = {
		.path = config->console,
		.discard = config->no_console,
		.input = config->console_stdin,
		.key = on_key,
		.panic = on_panic,
		.arg = vm,
	};

	vm->device_host = (struct device_host){
		.ports = &vm->group.ports,
		.mmio = &vm->group.mmio,
		.set_irq = set_irq,
		.power_off = power_off,
		.reset = reset,
		.transmit = transmit,
		.arg = vm,
	};
	for (size_t i = 0; i < NR_DEVICES; i++) {
		int ret = registry[i]->create(&vm->device_host, &vm->devices[i], err);

		if (ret) {
			error_prefix(err, "cannot create %s: ", registry[i]->name);
			return ret;
		}
	}
	return console_create(&console, vm->loop, &vm->device_host.console, &vm->console, err);
}

void vm_destroy_devices(struct vm *vm)
{
	console_destroy(vm->console);
	for (size_t i = NR_DEVICES; i-- > 0;) {
		if (vm->devices[i])
			registry[i]->destroy(vm->devices[i]);
	}
}
