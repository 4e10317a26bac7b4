// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include "vmm/kvm/cpuid.h"
#include "vmm/machine/vm-internal.h"

enum { MIB = 0x100000 };

static void set_com1_irq(void *arg, bool level)
{
	struct vm *vm = arg;

	kvm_irq_line(&vm->kvm, SERIAL_COM1_IRQ, level);
}

static bool com1_transmit(void *arg, uint8_t byte)
{
	struct vm *vm = arg;

	return console_put(vm->console, byte);
}

static const struct serial_ops com1_ops = {.set_irq = set_com1_irq, .transmit = com1_transmit};

static void power_off(void *arg)
{
	vm_request_end(arg, VM_END_POWER_OFF);
}

static void reset(void *arg)
{
	vm_request_end(arg, VM_END_REBOOT);
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

static int create_devices(struct vm *vm, const struct vm_config *config, struct error *err)
{
	const struct console_config console = {
		.path = config->console,
		.discard = config->no_console,
		.input = config->console_stdin,
		.key = on_key,
		.panic = on_panic,
		.arg = vm,
	};
	int rc;

	vm->pm = (struct acpi_pm){.power_off = power_off, .reset = reset, .arg = vm};
	rc = acpi_pm_init(&vm->pm, &vm->ports, err);
	if (!rc)
		rc = bus_add(&vm->ports, SERIAL_COM1_PORT, SERIAL_NR_PORTS, &serial_bus_ops,
			     &vm->serial, err);
	if (!rc)
		rc = console_create(&console, vm->loop, &vm->serial, &vm->console, err);
	return rc;
}

static int check_kvm(struct vm *vm, bool force, struct error *err)
{
	uint64_t per_second;
	int rc = kvm_open(&vm->kvm, err);

	if (!rc)
		rc = kvm_check_capabilities(&vm->kvm, err);
	/* The software KVM host of the tests is known to be slow and to run Linux. */
	vm->slow_kvm = getenv("SONDE_ALLOW_SLOW_KVM");
	if (rc || force || vm->slow_kvm)
		return rc;
	rc = kvm_measure_speed(&vm->kvm, KVM_MIN_SPEED, &per_second, err);
	return rc ? rc : kvm_check_speed(per_second, err);
}

static int create_memory(struct vm *vm, uint64_t ram_mib, struct error *err)
{
	int rc = guest_memory_init(&vm->memory, ram_mib * MIB, err);

	for (unsigned int i = 0; !rc && i < vm->memory.nr_regions; i++) {
		const struct guest_region *region = &vm->memory.regions[i];

		rc = kvm_set_memory(&vm->kvm, i, region->gpa, region->hva, region->size, err);
	}
	return rc;
}

static int create_vcpus(struct vm *vm, struct error *err)
{
	struct kvm_cpuid2 *cpuid = NULL;
	int rc = 0;

	for (unsigned int i = 0; !rc && i < vm->nr_vcpus; i++)
		rc = vcpu_init(&vm->vcpus[i], vm, i, err);
	if (!rc)
		rc = kvm_supported_cpuid(&vm->kvm, &cpuid, err);
	if (rc)
		return rc;
	cpuid_add_core_level(cpuid, KVM_CPUID_CAPACITY);
	scratch_memory_init(&vm->scratch, &vm->kvm, &vm->memory, cpuid_phys_bits(cpuid));
	for (unsigned int i = 0; !rc && i < vm->nr_vcpus; i++)
		rc = vcpu_setup(&vm->vcpus[i], cpuid, &vm->entry, err);
	free(cpuid);
	return rc;
}

static int build(struct vm *vm, const struct vm_config *config, struct error *err)
{
	int rc = check_kvm(vm, config->force, err);

	if (!rc)
		rc = kvm_create_vm(&vm->kvm, err);
	if (!rc)
		rc = create_memory(vm, config->ram_mib, err);
	if (!rc)
		rc = boot_load(&config->boot, vm->nr_vcpus, &vm->memory, &vm->entry, err);
	if (!rc)
		rc = create_devices(vm, config, err);
	if (!rc)
		rc = create_vcpus(vm, err);
	if (!rc)
		rc = trace_clock_init(&vm->clock, &vm->kvm, vm->vcpus[0].fd, err);
	return rc;
}

static bool can_step(const struct vm *vm)
{
	const int needed = KVM_GUESTDBG_SINGLESTEP | KVM_GUESTDBG_BLOCKIRQ;

	return (kvm_extension(&vm->kvm, KVM_CAP_SET_GUEST_DEBUG2) & needed) == needed;
}

static uint32_t capabilities(const struct vm *vm)
{
	return GUEST_CAP_PORT_TRAP | GUEST_CAP_WRITE | (can_step(vm) ? GUEST_CAP_STEP : 0) |
	       (vm->scratch.gpa ? GUEST_CAP_SCRATCH : 0);
}

static struct vm *allocate(const struct vm_config *config)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return NULL;
	vm->vcpus = calloc(config->nr_vcpus, sizeof(*vm->vcpus));
	if (!vm->vcpus) {
		free(vm);
		return NULL;
	}
	vm->nr_vcpus = config->nr_vcpus;
	vm->on_key = config->on_key;
	vm->on_panic = config->on_panic;
	vm->user_arg = config->arg;
	vm->kvm = (struct kvm){.fd = -1, .vm_fd = -1};
	vm->memory.fd = -1;
	vm->scratch.fd = -1;
	pthread_mutex_init(&vm->poll_lock, NULL);
	pthread_mutex_init(&vm->failure_lock, NULL);
	stop_gate_init(&vm->gate);
	serial_init(&vm->serial, &com1_ops, vm);
	return vm;
}

int vm_create(const struct vm_config *config, struct event_loop *loop, struct vm **out,
	      struct error *err)
{
	struct vm *vm;
	int rc;

	if (config->nr_vcpus < 1 || config->nr_vcpus > VM_MAX_VCPUS)
		return error_set(err, EINVAL, "%u vCPUs: 1 to %d are possible", config->nr_vcpus,
				 VM_MAX_VCPUS);
	if (config->ram_mib < VM_MIN_RAM_MIB || config->ram_mib > VM_MAX_RAM_MIB)
		return error_set(err, EINVAL, "%" PRIu64 " MiB of RAM: %d to %d are possible",
				 config->ram_mib, VM_MIN_RAM_MIB, VM_MAX_RAM_MIB);
	vm = allocate(config);
	if (!vm)
		return error_set(err, ENOMEM, "out of memory");
	vm->loop = loop;
	vcpu_install_kick_signal();
	rc = build(vm, config, err);
	if (rc) {
		vm_destroy(vm);
		return rc;
	}
	vm->guest = vmm_guest;
	vm->guest.caps = capabilities(vm);
	vm->guest.nr_vcpus = vm->nr_vcpus;
	*out = vm;
	return 0;
}

void vm_destroy(struct vm *vm)
{
	if (!vm)
		return;
	event_source_remove(vm->poll_timer);
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		vcpu_deinit(&vm->vcpus[i]);
	free(vm->vcpus);
	console_destroy(vm->console);
	serial_deinit(&vm->serial);
	kvm_close(&vm->kvm);
	scratch_memory_deinit(&vm->scratch);
	guest_memory_deinit(&vm->memory);
	stop_gate_deinit(&vm->gate);
	pthread_mutex_destroy(&vm->poll_lock);
	pthread_mutex_destroy(&vm->failure_lock);
	free(vm);
}
