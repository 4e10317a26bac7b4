/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_CONTROL_H
#define SONDE_INTROSPECT_GUEST_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"

struct guest;

struct guest_regs {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rip, rflags;
};

struct guest_sregs {
	uint64_t cr0, cr3, cr4, efer;
	uint64_t gs_base, kernel_gs_base, lstar, idt_base;
	uint8_t cpl;
	bool halted; /* waits for an interrupt, or has not been started */
};

/* How a backend stops and runs vCPUs, and their state. 0 or a negative errno with *err set. */
struct guest_control_ops {
	/*
	 * Stop every vCPU outside guest code, with no instruction half done; let them run again.
	 * Nests. Any thread. In a trap handler the calling vCPU counts as stopped; its registers
	 * are those in its guest_trap. Concurrent callers are serialised.
	 */
	int (*stop)(struct guest *guest, struct error *err);
	int (*resume)(struct guest *guest, struct error *err);
	/* stop, but -EBUSY at once if another thread holds the guest stopped. */
	int (*try_stop)(struct guest *guest, struct error *err);
	/* Whether the guest is held stopped now, by this process or another (racy). Any thread.
	 * Costly where the backend asks another process: never once per event. */
	bool (*is_stopped)(struct guest *guest);
	/*
	 * Set idle[vcpu] of each vCPU that is in user mode or halted at some moment of this call,
	 * while the guest runs; leave the other elements as they are. Any thread. NULL where a
	 * stop is cheap.
	 */
	void (*sample_idle)(struct guest *guest, bool *idle);

	/* vCPU state; only while the guest is stopped, or for the own vCPU in a trap handler. */
	int (*get_regs)(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			struct error *err);
	int (*set_regs)(struct guest *guest, unsigned int vcpu, const struct guest_regs *regs,
			struct error *err);
	int (*get_sregs)(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			 struct error *err);
};

/* Bits of control registers and EFER (Intel SDM vol. 3, 2.2.1 and 2.5). */
#define CR0_PE (UINT64_C(1) << 0)
#define CR0_ET (UINT64_C(1) << 4)
#define CR0_PG (UINT64_C(1) << 31)
#define CR4_PAE (UINT64_C(1) << 5)
#define CR4_LA57 (UINT64_C(1) << 12)
#define EFER_LME (UINT64_C(1) << 8)
#define EFER_LMA (UINT64_C(1) << 10)
#define EFER_NXE (UINT64_C(1) << 11)

static inline bool vcpu_has_paging(const struct guest_sregs *sregs)
{
	return sregs->cr0 & CR0_PG;
}

static inline bool vcpu_in_long_mode(const struct guest_sregs *sregs)
{
	return vcpu_has_paging(sregs) && (sregs->efer & EFER_LMA);
}

/* Levels of the page tables that the vCPU walks in long mode: 4 or 5. */
static inline unsigned int vcpu_paging_levels(const struct guest_sregs *sregs)
{
	return (sregs->cr4 & CR4_LA57) ? 5 : 4;
}

/*
 * The CR3 with which a process's kernel code runs, computed from the CR3 of its user mode. Under
 * page table isolation the user tables lack the kernel. Two bits differ, the second with PCIDs only
 * (Linux, arch/x86/entry/calling.h, PTI_USER_PGTABLE_BIT and X86_CR3_PTI_PCID_USER_BIT).
 */
static inline uint64_t vcpu_kernel_cr3(uint64_t cr3)
{
	return cr3 & ~(UINT64_C(1) << 12 | UINT64_C(1) << 11);
}

/* In user mode, halted, or not started: no kernel code is under way on this vCPU, nor an interrupt
 * or NMI handler. */
static inline bool vcpu_is_outside(const struct guest_sregs *sregs)
{
	return sregs->cpl == 3 || sregs->halted || !vcpu_has_paging(sregs);
}

#endif
