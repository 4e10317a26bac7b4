/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_KVM_H
#define SONDE_VMM_KVM_KVM_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * /dev/kvm and one of its virtual machines (Documentation/virt/kvm/api.rst). The guest-physical
 * pages that KVM needs for itself are below the 4 GiB line, above all RAM and devices.
 */
struct kvm {
	int fd;          /* /dev/kvm */
	int vm_fd;       /* -1 before kvm_create_vm() */
	size_t run_size; /* bytes of a vCPU's shared struct kvm_run */
};

enum {
	KVM_NANOSECONDS = 1000000000,
	KVM_CPUID_CAPACITY = 256, /* entries that kvm_supported_cpuid() leaves room for */
};

/* The kernel's private pages: one identity-map page, then three of the task state segment. */
static const uint64_t kvm_private_gpa = 0xfffbc000;
static const uint64_t kvm_private_size = 0x4000;

/*
 * Open /dev/kvm and check its version. The error is for the user, with cause and remedy:
 *  -ENOENT, -ENODEV, -ENXIO  there is none, or no driver behind it
 *  -EACCES, -EPERM           this user may not open it
 *  -EPROTO                   it is not a KVM of API version 12
 */
int kvm_open(struct kvm *kvm, struct error *err);
/* Closes what is open. */
void kvm_close(struct kvm *kvm);

/* A struct kvm_msrs, whose array has no size, with room for two entries. */
union kvm_msr_pair {
	struct kvm_msrs msrs;
	uint8_t room[sizeof(struct kvm_msrs) + 2 * sizeof(struct kvm_msr_entry)];
};

/* A capability that Sonde uses: `sonde doctor` lists it, kvm_check_capabilities() checks it. */
struct kvm_capability {
	const char *name; /* "immediate_exit" */
	const char *use;  /* what for */
	int cap;          /* KVM_CAP_ number */
	int bits;         /* bits that must be set in the value of KVM_CHECK_EXTENSION */
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

/* The result of KVM_GET_SUPPORTED_CPUID; the caller has to free(*out). */
int kvm_supported_cpuid(const struct kvm *kvm, struct kvm_cpuid2 **out, struct error *err);

#endif
