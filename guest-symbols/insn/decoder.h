/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_INSN_DECODER_H
#define SONDE_GUEST_SYMBOLS_INSN_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * x86-64 instruction decoding: lengths and control flow. The one user of Capstone; it also knows
 * the instructions of the kernel that Capstone 4.0.2 does not.
 */
enum insn_kind {
	INSN_OTHER,
	INSN_RET,           /* any return: near, far, from an interrupt or a system call */
	INSN_CALL_REL,      /* call rel32; target set */
	INSN_JMP_REL,       /* jmp rel8/rel32; target set */
	INSN_JCC_REL,       /* conditional jump, jrcxz, loop; target set */
	INSN_JMP_INDIRECT,  /* jmp through a register or memory */
	INSN_CALL_INDIRECT, /* call through a register or memory */
	INSN_INT3,
};

struct insn {
	uint64_t address;
	uint8_t size; /* bytes, 1..15 */
	enum insn_kind kind;
	uint64_t target;
	bool movable; /* it does the same at any other address */
	/* Not movable: where the 32 bits of its only displacement from RIP are, from its first
	 * byte; 0: it has none, or depends on its address otherwise. */
	uint8_t rip_at;
};

struct decoder;
int decoder_create(struct decoder **out, struct error *err);
void decoder_destroy(struct decoder *decoder);

/* Decode the instruction at bytes[0..size), which lies at `address`. -EILSEQ (with the address) if
 * it is none, or is cut off by `size`. */
int decoder_decode(struct decoder *decoder, const uint8_t *bytes, size_t size, uint64_t address,
		   struct insn *out, struct error *err);

#endif
