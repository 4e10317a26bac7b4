/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_GUEST_GUEST_H
#define SONDE_INTROSPECT_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/tsc-clock.h"

/*
 * A guest, whoever runs it: our own VMM (vmm/machine/guest.c), a memory dump
 * (introspect/guest/dump.c), a libvirt domain (vmm/libvirt/backend/guest.c). Everything above this
 * line (introspection, patching, tracing) must not know which.
 *
 * To add a backend: embed `struct guest` first in your own struct, fill `ops`, `caps` and
 * `nr_vcpus`, and implement the operations; leave out (NULL) what a missing capability excuses.
 * All operations return 0 or a negative errno with *err set.
 */
struct guest;

enum guest_cap {
	GUEST_CAP_PORT_TRAP =
		1 << 0, /* `out %al, $GUEST_TRAP_PORT` in guest text calls the trap handler */
	GUEST_CAP_STEP = 1 << 1,    /* ops->step works */
	GUEST_CAP_SCRATCH = 1 << 2, /* ops->scratch_add works */
	GUEST_CAP_WRITE = 1 << 3,   /* memory can be written */
	GUEST_CAP_BREAK = 1 << 4,   /* ops->set_break works: places with one call the handler */
};

/* The port whose OUT instruction (2 bytes: e6 PORT) is our trap. An 8-bit port no PC device
 * decodes. */
enum { GUEST_TRAP_PORT = 0xe4, GUEST_TRAP_SIZE = 2 };

/* One range of guest RAM. hva is its host mapping, NULL where memory cannot be mapped. */
struct guest_region {
	uint64_t gpa;
	uint64_t size;
	uint8_t *hva;
};

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

/*
 * A trap taken by a vCPU. regs.rip is the address of the OUT instruction, or of the place with a
 * break. The handler runs on the
 * vCPU's thread, several vCPUs at once; it may read and write guest memory and must set regs.rip to
 * where the vCPU goes on. Setting it to the trap's own address executes whatever is there now (the
 * backend first completes the OUT), for which a break must be gone. Other registers may be changed
 * too. `time_ns` is the trace clock.
 *
 * `gap_ns` not 0: this is no trap, but with the guest stopped and all breaks in place: for so long,
 * until now, there were none, and it may have run. Nothing else is set (GUEST_CAP_BREAK).
 */
struct guest_trap {
	unsigned int vcpu;
	uint64_t time_ns;
	uint64_t gap_ns;
	struct guest_regs regs;
};
/* Returns false if the trap is not ours: then the backend treats it as a plain port write. */
typedef bool guest_trap_fn(void *arg, struct guest_trap *trap);

struct guest_ops {
	const char *name; /* "kvm", "dump", "libvirt" */

	/*
	 * Guest RAM, sorted by gpa, owned by the guest and constant while it exists; after it what
	 * scratch_add() added.
	 */
	int (*regions)(struct guest *guest, const struct guest_region **out, size_t *n,
		       struct error *err);
	/* Only for guests whose memory is not mapped (region hva NULL), or not for writing. */
	int (*phys_read)(struct guest *guest, uint64_t gpa, void *to, size_t size,
			 struct error *err);
	int (*phys_write)(struct guest *guest, uint64_t gpa, const void *from, size_t size,
			  struct error *err);

	/* vCPU state; only while the guest is stopped, or for the own vCPU in a trap handler. */
	int (*get_regs)(struct guest *guest, unsigned int vcpu, struct guest_regs *out,
			struct error *err);
	int (*set_regs)(struct guest *guest, unsigned int vcpu, const struct guest_regs *regs,
			struct error *err);
	int (*get_sregs)(struct guest *guest, unsigned int vcpu, struct guest_sregs *out,
			 struct error *err);

	/*
	 * Set outside[vcpu] of those that are in user mode or halted at some moment of this call,
	 * while the guest runs; leave the others' alone. Where stopping is costly, or told to
	 * others; else NULL. Any thread.
	 */
	void (*sample_idle)(struct guest *guest, bool *outside);

	/*
	 * Stop every vCPU outside guest code, with no instruction half done, and let them go again.
	 * Nests. May be called from any thread, also from a trap handler (the calling vCPU counts
	 * as stopped; its registers are then those in its guest_trap). Two callers at once are
	 * serialised.
	 */
	int (*stop)(struct guest *guest, struct error *err);
	int (*resume)(struct guest *guest, struct error *err);

	/* stop, but -EBUSY at once if another thread holds the guest stopped. */
	int (*try_stop)(struct guest *guest, struct error *err);

	/* Whether somebody holds the guest stopped now, be it one that is not of this process. Any
	 * thread; a guess once it is answered. Others may have to be asked: not for each event. */
	bool (*is_stopped)(struct guest *guest);

	/*
	 * Only from a trap handler, for its own vCPU: take over *regs, execute exactly one
	 * instruction with interrupts held off, and give the new registers back.
	 */
	int (*step)(struct guest *guest, unsigned int vcpu, struct guest_regs *regs,
		    struct error *err);

	/* Who is called on a trap; NULL to take it away (waits until no handler is running). */
	int (*set_trap_handler)(struct guest *guest, guest_trap_fn *fn, void *arg,
				struct error *err);

	/*
	 * GUEST_CAP_BREAK: whether a vCPU that comes to execute the instruction at `gva`, which
	 * lies at `gpa`, calls the trap handler first. The guest's text need not change, but may:
	 * only an INT3 at gpa. With the guest stopped; what is so already stays so.
	 */
	int (*set_break)(struct guest *guest, uint64_t gva, uint64_t gpa, bool on,
			 struct error *err);

	/* Trace clock: ns, the guest's kvmclock where it has one. */
	uint64_t (*clock_ns)(struct guest *guest);

	/*
	 * The same clock for time stamps that vCPUs take themselves with RDTSC or RDTSCP. tsc_clock
	 * gives a vCPU's conversion, with the guest stopped; to be asked again when the guest may
	 * have written the register (while it boots, when it takes a CPU on or off line). -ENOTSUP
	 * if the host has no usable TSC. tsc is what vCPU 0, after its tsc_clock, would read now,
	 * or less where that is not known for sure; any thread, no system call. Both NULL where
	 * there is no such thing. tsc_seen (or NULL) is told a stamp that a vCPU has written,
	 * before tsc is asked.
	 */
	uint64_t (*tsc)(struct guest *guest);
	void (*tsc_seen)(struct guest *guest, uint64_t tsc);
	int (*tsc_clock)(struct guest *guest, unsigned int vcpu, struct tsc_clock *out,
			 struct error *err);

	/*
	 * GUEST_CAP_SCRATCH: memory of ours above guest RAM, zeroed, shared with the host; gpa and
	 * size (up to 256 MiB) are multiples of 2 MiB. The guest does not know of it before
	 * something in its page tables refers to it. -ENOSPC if there is no place.
	 *
	 * With the guest stopped. When scratch_remove() has returned no vCPU can reach the memory
	 * any more, through stale TLB entries neither.
	 */
	int (*scratch_add)(struct guest *guest, size_t size, struct guest_region *out,
			   struct error *err);
	int (*scratch_remove)(struct guest *guest, const struct guest_region *scratch,
			      struct error *err);
};

struct guest {
	const struct guest_ops *ops;
	uint32_t caps; /* enum guest_cap */
	unsigned int nr_vcpus;
	uint64_t max_scratch; /* bytes that one scratch_add can give; 0: as many as it says */
};

/* Whether places in its text can call the trap handler, one way or the other. */
static inline bool guest_has_traps(const struct guest *guest)
{
	return guest->caps & (GUEST_CAP_PORT_TRAP | GUEST_CAP_BREAK);
}

/* Read or write guest-physical memory; -EFAULT (with the address) if any byte is not guest RAM. */
int guest_phys_read(struct guest *guest, uint64_t gpa, void *to, size_t size, struct error *err);
int guest_phys_write(struct guest *guest, uint64_t gpa, const void *from, size_t size,
		     struct error *err);

/* Host address of [gpa, gpa + size) if it is mapped RAM of one region, else NULL. */
void *guest_phys_hva(struct guest *guest, uint64_t gpa, size_t size);

#endif
