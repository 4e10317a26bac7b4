/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_KVM_MSRS_H
#define SONDE_VMM_KVM_MSRS_H

#include <linux/kvm.h>
#include <stdint.h>

/* A struct kvm_msrs, whose array has no size, with room for all that we ever ask for at once. */
union kvm_msr_pair {
	struct kvm_msrs msrs;
	uint8_t room[sizeof(struct kvm_msrs) + 2 * sizeof(struct kvm_msr_entry)];
};

#endif
