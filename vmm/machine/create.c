/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Building a machine, and taking it down. */
#include <errno.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include "vmm/kvm/cpuid.h"
#include "vmm/kvm/speed.h"
#include "vmm/machine/internal.h"

enum { MIB = 0x100000 };

static int check_kvm(struct vcpu_group *group, bool force, struct error *err)
{
	uint64_t per_second;
	int ret = kvm_open(&group->kvm, err);

	if (ret)
		return ret;
	ret = kvm_check_capabilities(&group->kvm, err);
	if (ret)
		return ret;
	/* Linux stands still if only some of its CPUs have that timer: so this is asked once. */
	group->tsc_deadline = kvm_extension(&group->kvm, KVM_CAP_TSC_DEADLINE_TIMER) > 0;
	/* The software KVM host of the tests is slow, and runs Linux. */
	group->slow_kvm = getenv("SONDE_ALLOW_SLOW_KVM");
	if (force || group->slow_kvm)
		return 0;
	ret = kvm_measure_speed(&group->kvm, KVM_MIN_SPEED, &per_second, err);
	return ret ? ret : kvm_check_speed(per_second, err);
}

static int create_memory(struct vcpu_group *group, uint64_t ram_mib, struct error *err)
{
	struct guest_memory *memory = &group->memory;
	int ret = guest_memory_init(memory, ram_mib * MIB, err);

	for (unsigned int i = 0; !ret && i < memory->nr_regions; i++) {
		const struct guest_region *region = &memory->regions[i];

		ret = kvm_set_memory(&group->kvm, i, region->gpa, region->hva, region->size, err);
	}
	return ret;
}

static int create_vcpus(struct vm *vm, struct error *err)
{
	struct vcpu_group *group = &vm->group;
	struct kvm_cpuid2 *cpuid;
	int ret;

	for (unsigned int i = 0; i < group->nr_vcpus; i++) {
		ret = vcpu_init(&vm->vcpus[i], group, i, err);
		if (ret)
			return ret;
	}
	ret = kvm_supported_cpuid(&group->kvm, &cpuid, err);
	if (ret)
		return ret;
	cpuid_add_core_level(cpuid, KVM_CPUID_CAPACITY);
	scratch_memory_init(&vm->scratch, &group->kvm, &group->memory, cpuid_phys_bits(cpuid));
	for (unsigned int i = 0; !ret && i < group->nr_vcpus; i++)
		ret = vcpu_setup(&vm->vcpus[i], cpuid, &vm->entry, err);
	free(cpuid);
	return ret;
}

/* On an error vm_destroy() takes down what there is. */
static int build(struct vm *vm, const struct vm_config *config, struct error *err)
{
	struct vcpu_group *group = &vm->group;
	int ret = check_kvm(group, config->force, err);

	if (ret)
		return ret;
	ret = kvm_create_vm(&group->kvm, err);
	if (ret)
		return ret;
	ret = create_memory(group, config->ram_mib, err);
	if (ret)
		return ret;
	ret = boot_load(&config->boot, group->nr_vcpus, &group->memory, &vm->entry, err);
	if (ret)
		return ret;
	ret = vm_create_devices(vm, config, err);
	if (ret)
		return ret;
	ret = create_vcpus(vm, err);
	if (ret)
		return ret;
	return trace_clock_init(&group->clock, &group->kvm, vm->vcpus[0].fd, err);
}

static uint32_t capabilities(const struct vm *vm)
{
	return GUEST_CAP_PORT_TRAP | GUEST_CAP_WRITE | (vm->scratch.gpa ? GUEST_CAP_SCRATCH : 0);
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
	vm->group.nr_vcpus = config->nr_vcpus;
	vm->on_key = config->on_key;
	vm->on_panic = config->on_panic;
	vm->ask_panic = config->ask_panic;
	vm->user_arg = config->arg;
	vm->group.kvm = (struct kvm){.fd = -1, .vm_fd = -1};
	vm->group.memory.fd = -1;
	vm->scratch.fd = -1;
	pthread_mutex_init(&vm->poll_lock, NULL);
	pthread_mutex_init(&vm->failure_lock, NULL);
	stop_gate_init(&vm->group.gate);
	vm_connect_vcpus(vm);
	return vm;
}

int vm_create(const struct vm_config *config, struct event_loop *loop, struct vm **out,
	      struct error *err)
{
	struct vm *vm;
	int ret;

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
	ret = build(vm, config, err);
	if (ret) {
		vm_destroy(vm);
		return ret;
	}
	vm->guest = vmm_guest;
	vm->guest.caps = capabilities(vm);
	vm->guest.nr_vcpus = vm->group.nr_vcpus;
	*out = vm;
	return 0;
}

void vm_destroy(struct vm *vm)
{
	if (!vm)
		return;
	event_source_remove(vm->poll_timer);
	for (unsigned int i = 0; i < vm->group.nr_vcpus; i++)
		vcpu_deinit(&vm->vcpus[i]);
	free(vm->vcpus);
	vm_destroy_devices(vm);
	kvm_close(&vm->group.kvm);
	scratch_memory_deinit(&vm->scratch);
	guest_memory_deinit(&vm->group.memory);
	stop_gate_deinit(&vm->group.gate);
	pthread_mutex_destroy(&vm->poll_lock);
	pthread_mutex_destroy(&vm->failure_lock);
	free(vm);
}
