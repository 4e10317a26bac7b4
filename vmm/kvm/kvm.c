/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/kvm/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	IDENTITY_MAP_SIZE = 0x1000,
	PIC_PINS = 8, /* of each of the two */
	IOAPIC_PINS = 24,
	TIMER_PIN = 2, /* of the I/O APIC; at that of the first PIC is the second one */
};

static const struct kvm_capability capabilities[] = {
	{"irqchip", "interrupt controllers in the kernel", KVM_CAP_IRQCHIP, 0, true, "2.6.21"},
	{"user_memory", "guest memory from user space", KVM_CAP_USER_MEMORY, 0, true, "2.6.25"},
	{"set_tss_addr", "real mode on Intel", KVM_CAP_SET_TSS_ADDR, 0, true, "2.6.25"},
	{"set_identity_map_addr", "real mode on Intel", KVM_CAP_SET_IDENTITY_MAP_ADDR, 0, true,
	 "2.6.32"},
	{"ext_cpuid", "CPUID of the guest", KVM_CAP_EXT_CPUID, 0, true, "2.6.26"},
	{"pit2", "timer in the kernel", KVM_CAP_PIT2, 0, true, "2.6.31"},
	{"adjust_clock", "time stamps in guest time", KVM_CAP_ADJUST_CLOCK, 0, true, "2.6.33"},
	{"immediate_exit", "stopping vCPUs", KVM_CAP_IMMEDIATE_EXIT, 0, true, "4.11"},
	{"sync_regs", "registers of a trap", KVM_CAP_SYNC_REGS, KVM_SYNC_X86_REGS, true, "4.17"},
	{"tsc_deadline_timer", "cheaper guest timers", KVM_CAP_TSC_DEADLINE_TIMER, 0, false, "3.9"},
	{"kvmclock_ctrl", "pauses without soft lockups", KVM_CAP_KVMCLOCK_CTRL, 0, false, "3.5"},
};

const struct kvm_capability *kvm_capabilities(size_t *n)
{
	*n = sizeof(capabilities) / sizeof(capabilities[0]);
	return capabilities;
}

static int open_error(int code, struct error *err)
{
	switch (code) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return error_set(err, code,
				 "there is no /dev/kvm: load kvm-intel or kvm-amd, and enable "
				 "virtualisation in the firmware");
	case EACCES:
	case EPERM:
		return error_set(err, code,
				 "no permission to open /dev/kvm: join group kvm (adduser $USER "
				 "kvm, then log in again)");
	default:
		return error_set(err, code, "cannot open /dev/kvm: %s", strerror(code));
	}
}

int kvm_open(struct kvm *kvm, struct error *err)
{
	int version, run_size, code;

	*kvm = (struct kvm){.vm_fd = -1};
	kvm->fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm->fd < 0)
		return open_error(errno, err);
	version = ioctl(kvm->fd, KVM_GET_API_VERSION, 0);
	run_size = ioctl(kvm->fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (version != KVM_API_VERSION || run_size < (int)sizeof(struct kvm_run)) {
		code = version < 0 || run_size < 0 ? errno : EPROTO;
		kvm_close(kvm);
		return error_set(err, code,
				 "/dev/kvm is not a KVM that Sonde knows (API version %d)",
				 version);
	}
	kvm->run_size = (size_t)run_size;
	return 0;
}

void kvm_close(struct kvm *kvm)
{
	if (kvm->vm_fd >= 0)
		close(kvm->vm_fd);
	if (kvm->fd >= 0)
		close(kvm->fd);
	kvm->vm_fd = kvm->fd = -1;
}

int kvm_extension(const struct kvm *kvm, int cap)
{
	int value = ioctl(kvm->fd, KVM_CHECK_EXTENSION, cap);

	return value < 0 ? 0 : value;
}

bool kvm_has(const struct kvm *kvm, const struct kvm_capability *capability)
{
	int value = kvm_extension(kvm, capability->cap);

	return value && (value & capability->bits) == capability->bits;
}

int kvm_check_capabilities(const struct kvm *kvm, struct error *err)
{
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		const struct kvm_capability *c = &capabilities[i];

		if (c->required && !kvm_has(kvm, c))
			return error_set(err, ENOTSUP,
					 "this KVM lacks %s (%s), which Linux has since %s: run "
					 "'sonde doctor'",
					 c->name, c->use, c->since);
	}
	return 0;
}

static int vm_ioctl_error(const char *what, struct error *err)
{
	return error_set(err, errno, "KVM: cannot %s: %s", what, strerror(errno));
}

static struct kvm_irq_routing_entry route(uint32_t gsi, uint32_t chip, uint32_t pin)
{
	return (struct kvm_irq_routing_entry){.gsi = gsi,
					      .type = KVM_IRQ_ROUTING_IRQCHIP,
					      .u.irqchip = {.irqchip = chip, .pin = pin}};
}

/*
 * As KVM has it by default, but for the timer. A PC has it at pin 2 of the I/O APIC, as the ACPI
 * tables say, and KVM at pin 0. A guest does not notice that unless it cannot use the timer of its
 * local APIC: then no timer ever interrupts it.
 */
static int set_routing(const struct kvm *kvm)
{
	union {
		struct kvm_irq_routing all;
		uint8_t bytes[sizeof(struct kvm_irq_routing) +
			      (2 * PIC_PINS + IOAPIC_PINS) * sizeof(struct kvm_irq_routing_entry)];
	} u = {.bytes = {0}};
	struct kvm_irq_routing_entry *next = u.all.entries;

	for (uint32_t pin = 0; pin < PIC_PINS; pin++) {
		if (pin != TIMER_PIN)
			*next++ = route(pin, KVM_IRQCHIP_PIC_MASTER, pin);
		*next++ = route(PIC_PINS + pin, KVM_IRQCHIP_PIC_SLAVE, pin);
	}
	for (uint32_t pin = 1; pin < IOAPIC_PINS; pin++)
		*next++ = route(pin == TIMER_PIN ? 0 : pin, KVM_IRQCHIP_IOAPIC, pin);
	u.all.nr = (uint32_t)(next - u.all.entries);
	return ioctl(kvm->vm_fd, KVM_SET_GSI_ROUTING, &u.all);
}

int kvm_create_vm(struct kvm *kvm, struct error *err)
{
	struct kvm_pit_config pit = {.flags = KVM_PIT_SPEAKER_DUMMY};
	uint64_t identity = kvm_private_gpa;

	kvm->vm_fd = ioctl(kvm->fd, KVM_CREATE_VM, 0);
	if (kvm->vm_fd < 0)
		return vm_ioctl_error("create a virtual machine", err);
	if (ioctl(kvm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0 ||
	    ioctl(kvm->vm_fd, KVM_SET_TSS_ADDR, kvm_private_gpa + IDENTITY_MAP_SIZE) < 0)
		return vm_ioctl_error("place its private pages", err);
	if (ioctl(kvm->vm_fd, KVM_CREATE_IRQCHIP, 0) < 0)
		return vm_ioctl_error("create the interrupt controllers", err);
	if (set_routing(kvm) < 0)
		return vm_ioctl_error("route interrupts", err);
	if (ioctl(kvm->vm_fd, KVM_CREATE_PIT2, &pit) < 0)
		return vm_ioctl_error("create the timer", err);
	return 0;
}

int kvm_set_memory(const struct kvm *kvm, unsigned int slot, uint64_t gpa, void *hva, uint64_t size,
		   struct error *err)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = (uintptr_t)hva,
	};

	if (ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return vm_ioctl_error("map guest memory", err);
	return 0;
}

void kvm_irq_line(const struct kvm *kvm, unsigned int irq, bool level)
{
	struct kvm_irq_level line = {.irq = irq, .level = level};

	/* Fails only for a line that does not exist. */
	ioctl(kvm->vm_fd, KVM_IRQ_LINE, &line);
}

int kvm_supported_cpuid(const struct kvm *kvm, struct kvm_cpuid2 **out, struct error *err)
{
	size_t size =
		sizeof(struct kvm_cpuid2) + KVM_CPUID_CAPACITY * sizeof(struct kvm_cpuid_entry2);
	struct kvm_cpuid2 *cpuid = calloc(1, size);

	if (!cpuid)
		return error_set(err, ENOMEM, "out of memory");
	cpuid->nent = KVM_CPUID_CAPACITY;
	if (ioctl(kvm->fd, KVM_GET_SUPPORTED_CPUID, cpuid) < 0) {
		free(cpuid);
		return vm_ioctl_error("read the supported CPUID", err);
	}
	*out = cpuid;
	return 0;
}
