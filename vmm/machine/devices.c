/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registry of device models, a row each, and the functions of the machine that they call. */
#include "vmm/devices/models.h"
#include "vmm/machine/internal.h"

static const struct device_ops *const registry[] = {
	&acpi_pm_device,
	&pvpanic_device,
	&serial_device,
};
enum { NR_DEVICES = sizeof(registry) / sizeof(registry[0]) };

_Static_assert((int)NR_DEVICES <= (int)VM_MAX_DEVICES, "room for every device");

enum { PANIC_DELAY_MS = 10 }; /* the end of the message may still be in the console */

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

static void panic_driver(void *arg)
{
	struct vm *vm = arg;

	atomic_store(&vm->panic_driver, true);
}

/* On a vCPU's thread. */
static void panicked(void *arg)
{
	struct vm *vm = arg;

	atomic_store(&vm->panicked, true);
	event_timer_arm(vm->panic_timer, PANIC_DELAY_MS);
}

static void report_panic(void *arg)
{
	struct vm *vm = arg;

	if (!vm->panic_told)
		vm_ask_panic(vm);
	if (vm->panic_told || !vm_panic_reason(vm))
		return;
	vm->panic_told = true;
	vm_set_status(vm, VM_STATUS_GUEST_PANICKED);
	if (vm->on_panic)
		vm->on_panic(vm->user_arg, vm_panic_reason(vm));
}

int vm_create_devices(struct vm *vm, const struct vm_config *config, struct error *err)
{
	const struct console_config console = {
		.path = config->console,
		.discard = config->no_console,
		.input = config->console_stdin,
		.key = on_key,
		.panic = report_panic,
		.arg = vm,
	};
	int ret;

	vm->device_host = (struct device_host){
		.ports = &vm->group.ports,
		.mmio = &vm->group.mmio,
		.set_irq = set_irq,
		.power_off = power_off,
		.reset = reset,
		.panic_driver = panic_driver,
		.panicked = panicked,
		.transmit = transmit,
		.arg = vm,
	};
	ret = event_loop_add_timer(vm->loop, 0, report_panic, vm, &vm->panic_timer, err);
	if (ret)
		return ret;
	for (size_t i = 0; i < NR_DEVICES; i++) {
		ret = registry[i]->create(&vm->device_host, &vm->devices[i], err);

		if (ret) {
			error_prefix(err, "cannot create %s: ", registry[i]->name);
			return ret;
		}
	}
	return console_create(&console, vm->loop, &vm->device_host.console, &vm->console, err);
}

void vm_destroy_devices(struct vm *vm)
{
	event_source_remove(vm->panic_timer);
	console_destroy(vm->console);
	for (size_t i = NR_DEVICES; i-- > 0;) {
		if (vm->devices[i])
			registry[i]->destroy(vm->devices[i]);
	}
}
