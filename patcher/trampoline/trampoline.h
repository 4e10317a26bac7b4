/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_TRAMPOLINE_H
#define SONDE_PATCHER_TRAMPOLINE_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/probe/capture.h"
#include "patcher/text/insn.h"

/*
 * Code that runs in the guest in place of a trap: it writes one record into the ring of its CPU
 * (ring-layout.h), or as many as its capture's items need, and goes on to where the guest would
 * have gone. An mcount site or a return slot becomes a jump to it. Nothing stays on the guest's
 * stack. Interrupts are off inside, but at the first two instructions.
 *
 * At an entry it changes RAX, R10 and R11, which the calling convention leaves free there, and of
 * RDX, RCX and RSI those that are known to hold no argument: a kernel with mcount sites is built
 * without -fipa-ra, so that no caller knows better. At a return it changes RCX, RDX, RSI, RDI, R10
 * and R11: a result of 128 bits is not for it. Of the flags only those of arithmetic change, in
 * which nobody is interested at either place.
 */

/* The rings, as the guest sees them. */
struct trampoline_rings {
	uint64_t gva;        /* CPU 0's header, within 2 GiB of 0 or of the top */
	uint32_t data_bytes; /* a power of two, RING_MIN_DATA or more */
	uint32_t cpus;
	uint32_t patience; /* TRAMPOLINE_SPIN: ticks that a full ring is waited for */
};

/* How to tell a slab page: (32 bits at `offset` of struct page & mask) == value. */
struct slab_test {
	uint32_t offset, mask, value;
};

/* What of the kernel is written into code. Only what the capture needs must be filled in. */
struct trampoline_kernel {
	int32_t cpu_number;            /* %gs:this is the CPU's number, 32 bits */
	int32_t current_task;          /* %gs:this is the gva of the running task */
	uint32_t task_pid, task_comm;  /* offsets in struct task_struct */
	uint64_t page_offset, vmemmap; /* gvas: of physical address 0, and of its struct page */
	uint64_t pages;                /* that the direct map holds, of 4096 bytes */
	uint32_t page_compound_head;   /* offsets in struct page, whose size must be 64 */
	uint32_t page_slab_cache;
	int32_t page_lowest_mask; /* sign-extended; struct slab_page_facts */
	struct slab_test slab;
	/* Items that are struct pages: a head has bit `page_head_bit` of its flags, and its order
	 * in the low 6 bits of the byte at `page_order`, maybe in the struct page behind it. */
	uint32_t page_flags, page_order;
	uint8_t page_head_bit; /* below 32 */
};

enum trampoline_full {
	TRAMPOLINE_BLOCK, /* a full ring rings the host for each record */
	TRAMPOLINE_SPIN,  /* nobody serves an `out`: waits for room, but not for a host that is dead
			     (ring-layout.h, spin_deadline), and then counts it */
	TRAMPOLINE_DROP,  /* counts it in the ring's `drops`; rings if `doorbell` is set */
};

struct trampoline_spec {
	uint64_t gva; /* where it will run */
	struct capture capture;
	uint32_t id; /* of its records, below RING_COMMITTED */
	struct trampoline_rings rings;
	uint64_t saved_arrays; /* gva of RING_SAVED_SLOTS, likewise; 0 if the capture does not need
				  them */
	const struct trampoline_kernel *kernel;
	uint64_t next; /* gva to go to: behind the site, or the return thunk; 0 = return */
	enum trampoline_full full;
	bool unprivileged; /* for tests in user mode: leaves interrupts on */
};

enum { TRAMPOLINE_MAX = 1024 };

/*
 * `trap` is the offset of an OUT to GUEST_TRAP_PORT, reached with nothing reserved. The host makes
 * room and moves RIP to `retry`, or to `skip` if the record is to be forgotten. If it only lets the
 * guest go on, the record is counted in the ring's `drops`. All three are about one record, not
 * about the others of its call. With TRAMPOLINE_SPIN `trap` is not an OUT but the start of a loop.
 */
struct trampoline {
	uint8_t bytes[TRAMPOLINE_MAX];
	uint16_t size;
	uint16_t trap, retry, skip; /* offsets of instructions */
	struct record_layout layout;
};

/*
 * Generate one trampoline and check it with the decoder: whole instructions, every branch to one of
 * them or to `next`. -EINVAL for a capture or rings that cannot be, -ERANGE if something is too far
 * away, -EILSEQ if the code generated is not what it should be.
 */
int trampoline_generate(const struct trampoline_spec *spec, struct decoder *decoder,
			struct trampoline *out, struct error *err);

#endif
