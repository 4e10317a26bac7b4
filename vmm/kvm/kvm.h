/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_KVM_H
#define SONDE_VMM_KVM_KVM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * /dev/kvm and one virtual machine of it (Documentation/virt/kvm/api.rst). Where the API needs
 * guest-physical pages of its own it gets them below the 4 GiB line, above all RAM and devices.
 */
struct kvm {
	int fd;          /* /dev/kvm */
	int vm_fd;       /* -1 before kvm_create_vm() */
	size_t run_size; /* bytes of a vCPU's shared struct kvm_run */
};

enum {
	KVM_NANOSECONDS = 1000000000,
	KVM_CPUID_CAPACITY = 256, /* entries that kvm_supported_cpuid() leaves room for */
	/* Slower than any processor since 2000: then KVM is not backed by hardware. */
	KVM_MIN_SPEED = 100000000, /* instructions per second */
};

/* The kernel's private pages: one identity-map page, then three of the task state segment. */
static const uint64_t kvm_private_gpa = 0xfffbc000;
static const uint64_t kvm_private_size = 0x4000;

/*
 * Open /dev/kvm and check its version. The error says what is the matter (missing, no permission,
 * busy) and what to do.
 */
int kvm_open(struct kvm *kvm, struct error *err);
/* Closes what is open. */
void kvm_close(struct kvm *kvm);

/* A struct kvm_msrs, whose array has no size, with room for two entries. */
union kvm_msr_pair {
	struct kvm_msrs msrs;
	uint8_t room[sizeof(struct kvm_msrs) + 2 * sizeof(struct kvm_msr_entry)];
};

/* A capability Sonde uses: for `sonde doctor`, and checked by kvm_check_capabilities(). */
struct kvm_capability {
	const char *name; /* "immediate_exit" */
	const char *use;  /* what for */
	int cap;          /* KVM_CAP_ number */
	int bits;         /* bits that must be set in what KVM_CHECK_EXTENSION says */
	bool required;
	const char *since; /* Linux version that has it */
};
const struct kvm_capability *kvm_capabilities(size_t *n);
bool kvm_has(const struct kvm *kvm, const struct kvm_capability *capability);
/* Value of KVM_CHECK_EXTENSION, 0 if unknown to this kernel. */
int kvm_extension(const struct kvm *kvm, int cap);
/* -ENOTSUP, naming the first required capability that is missing. */
int kvm_check_capabilities(const struct kvm *kvm, struct error *err);

/* Create the machine with interrupt controllers and timer in the kernel. */
int kvm_create_vm(struct kvm *kvm, struct error *err);

/* Map host memory at a guest-physical address; all page-aligned. size 0 removes the slot. */
int kvm_set_memory(const struct kvm *kvm, unsigned int slot, uint64_t gpa, void *hva, uint64_t size,
		   struct error *err);

/* Drive a line of both PICs and the IOAPIC. Any thread. */
void kvm_irq_line(const struct kvm *kvm, unsigned int irq, bool level);

/* What KVM_GET_SUPPORTED_CPUID says; *out is the caller's to free(). */
int kvm_supported_cpuid(const struct kvm *kvm, struct kvm_cpuid2 **out, struct error *err);

/*
 * How many instructions per second a guest executes here, measured with a counting loop in a
 * machine of its own (2 to 20 ms). Some hosts emulate every instruction. Stops early when it is
 * certainly as fast as `enough`: all that disturbs a short measurement makes it slower.
 */
int kvm_measure_speed(const struct kvm *kvm, uint64_t enough, uint64_t *per_second,
		      struct error *err);

/* -ENOTSUP with a one-line explanation if `per_second` is too slow to run Linux. */
int kvm_check_speed(uint64_t per_second, struct error *err);

#endif
