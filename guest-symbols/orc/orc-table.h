/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_ORC_ORC_TABLE_H
#define SONDE_GUEST_SYMBOLS_ORC_ORC_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "guest-symbols/image/kernel-image.h"

/*
 * The ORC tables of an image (arch/x86/include/asm/orc_types.h, arch/x86/kernel/unwind_orc.c;
 * sorted by scripts/sorttable.c at build): n instruction addresses, each a 32-bit offset from its
 * own place, and n entries of 6 bytes: s16 sp_offset, s16 bp_offset, 16 bits of bit-fields.
 */
struct orc_table {
	const uint8_t *ips, *entries; /* borrowed */
	uint64_t ips_link;            /* link address of ips[0] */
	size_t n;                     /* 0 = there are none */
	uint8_t type_bits;            /* width of orc_entry.type: 2, and 3 since 6.4; 0 = BTF does
				       * not say, and no entry can be read */
	uint8_t end_bit;              /* of the bit-fields; 0 = there is no orc_entry.end (6.4) */
	const uint8_t *bases;         /* enum orc_base by the kernel's number, which are others
				       * since 7.2; NULL = the entries are of no known numbers */
};

enum orc_kind {
	ORC_KIND_UNKNOWN,      /* nothing is known of the stack there */
	ORC_KIND_END,          /* the stack ends */
	ORC_KIND_CALL,         /* the return address lies below the CFA */
	ORC_KIND_REGS,         /* the CFA is that of a struct pt_regs */
	ORC_KIND_REGS_PARTIAL, /* the CFA is that of its last five words, from `ip` on */
};

/* What a register's earlier value is computed from. */
enum orc_base {
	ORC_BASE_UNDEFINED,
	ORC_BASE_PREV_SP, /* the CFA */
	ORC_BASE_BP,
	ORC_BASE_SP,
	ORC_BASE_BP_INDIRECT, /* the word at RBP + offset */
	ORC_BASE_SP_INDIRECT, /* the word at RSP, + offset */
	ORC_BASE_OTHER,       /* a register that is not followed, or an unknown number */
};

struct orc_entry {
	enum orc_kind kind;
	enum orc_base sp_base, bp_base;
	int16_t sp_offset, bp_offset;
};

/* Empty if the image has no valid tables. */
void orc_table_init(const struct kernel_image *image, struct orc_table *out);

/*
 * Tables that were copied, of a module of the kernel that `kernel` is of: n addresses, the first of
 * which was at the gva `ips_gva`, and n entries. False: the addresses do not ascend, or `kernel` is
 * not usable. The gva of an instruction is its link address here.
 */
bool orc_table_init_module(const struct orc_table *kernel, const uint8_t *ips, uint64_t ips_gva,
			   const uint8_t *entries, size_t n, struct orc_table *out);

/* Whether entries can be read. */
bool orc_table_is_usable(const struct orc_table *table);

/* The entry that covers the instruction at this link address, of a table that is usable. False:
 * none does. */
bool orc_table_find(const struct orc_table *table, uint64_t link, struct orc_entry *out);

/* --- frame-pointers.c ------------------------------------------------------------------------- */

/*
 * Whether the kernel's functions keep their frames' addresses in RBP (CONFIG_FRAME_POINTER, which
 * CONFIG_UNWINDER_FRAME_POINTER selects): most of a sample of them begin so.
 */
bool image_has_frame_pointers(const struct kernel_image *image);

/* --- unwind.c --------------------------------------------------------------------------------- */

/*
 * Call chains out of a part of a kernel stack that was copied, as the kernel's own unwinder finds
 * them (Documentation/arch/x86/orc-unwinder.rst; arch/x86/kernel/unwind_frame.c, which a kernel
 * without ORC tables has). A pure function of what it is given: what the guest wrote may be
 * anything.
 */
struct stack_slice {
	/* gva of an instruction that has not been executed yet; 0: the first word is a return
	 * address, and its function has no frame (any more) */
	uint64_t ip;
	uint64_t sp;           /* RSP, which is the gva of the first word */
	uint64_t bp;           /* RBP */
	const uint64_t *words; /* from sp on */
	size_t n;
	/* So many words follow in `words`, of the stack that the CPU was on before this one, from
	 * the gva rest_sp on */
	size_t rest;
	uint64_t rest_sp;
	/* gva of the end of the task's stack, where the registers of user mode lie; 0: the slice is
	 * of another stack */
	uint64_t top;
};

/* The entry that covers the instruction at a gva. False: none does. */
typedef bool orc_find_fn(void *arg, uint64_t gva, struct orc_entry *out);

/*
 * The return addresses, innermost first: up to `max`, *n of them. `start` and `end` are the
 * link-time bounds of the text that the table is of; gva = link + slide. `find_other` (or NULL)
 * knows of other text, that of modules. With `frame_pointers` there are no tables, and each frame
 * says where the next one is. `return_hooks` (or NULL) are link addresses, or 0, of code of the
 * kernel's that its own tracers have a function return to: a caller whose address they have
 * replaced so is not known. Returns whether the chain is whole: else the slice, the tables or `max`
 * ended before it did, it leads to such a caller, or a step needs a register that is not known.
 */
enum { ORC_RETURN_HOOKS = 3 };
struct orc_text {
	const struct orc_table *table;
	uint64_t start, end, slide;
	orc_find_fn *find_other;
	void *other;
	bool frame_pointers;
	const uint64_t *return_hooks;
};
bool stack_unwind(const struct orc_text *text, const struct stack_slice *slice, uint64_t *frames,
		  size_t max, size_t *n);

#endif
