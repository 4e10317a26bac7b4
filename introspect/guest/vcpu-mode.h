/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_VCPU_MODE_H
#define SONDE_INTROSPECT_GUEST_VCPU_MODE_H

#include <stdbool.h>
#include <stdint.h>
#include "introspect/guest/guest.h"

/* Of the control registers and EFER (Intel SDM vol. 3, 2.2.1 and 2.5). */
#define CR0_PE (UINT64_C(1) << 0)
#define CR0_ET (UINT64_C(1) << 4)
#define CR0_PG (UINT64_C(1) << 31)
#define CR4_PAE (UINT64_C(1) << 5)
#define CR4_LA57 (UINT64_C(1) << 12)
#define EFER_LME (UINT64_C(1) << 8)
#define EFER_LMA (UINT64_C(1) << 10)
#define EFER_NXE (UINT64_C(1) << 11)

/* What they tell of what a vCPU does. */
static inline bool vcpu_has_paging(const struct guest_sregs *sregs)
{
	return sregs->cr0 & CR0_PG;
}

static inline bool vcpu_in_long_mode(const struct guest_sregs *sregs)
{
	return vcpu_has_paging(sregs) && (sregs->efer & EFER_LMA);
}

/* Of the page tables that it walks in long mode: 4, or 5. */
static inline unsigned int vcpu_paging_levels(const struct guest_sregs *sregs)
{
	return (sregs->cr4 & CR4_LA57) ? 5 : 4;
}

/*
 * The CR3 with which a process's kernel code runs, from that of its user mode, whose tables lack
 * the kernel under page table isolation: two bits tell them apart, the second with PCIDs only
 * (Linux, arch/x86/entry/calling.h, PTI_USER_PGTABLE_BIT and X86_CR3_PTI_PCID_USER_BIT).
 */
static inline uint64_t vcpu_kernel_cr3(uint64_t cr3)
{
	return cr3 & ~(UINT64_C(1) << 12 | UINT64_C(1) << 11);
}

/*
 * In user mode, idle, or not started: no code of the kernel is under way on it, of what interrupts
 * and NMIs began neither.
 */
static inline bool vcpu_is_outside(const struct guest_sregs *sregs)
{
	return sregs->cpl == 3 || sregs->halted || !vcpu_has_paging(sregs);
}

#endif
