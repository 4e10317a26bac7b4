/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_ASM_X86_H
#define SONDE_PATCHER_TRAMPOLINE_ASM_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * An emitter for the x86-64 instructions of trampolines (Intel SDM volume 2). Errors stick:
 * emit everything, then ask assembler_finish() once.
 */
enum asm_reg {
	ASM_RAX,
	ASM_RCX,
	ASM_RDX,
	ASM_RBX,
	ASM_RSP,
	ASM_RBP,
	ASM_RSI,
	ASM_RDI,
	ASM_R8,
	ASM_R9,
	ASM_R10,
	ASM_R11,
	ASM_R12,
	ASM_R13,
	ASM_R14,
	ASM_R15,
	ASM_NO_REG = -1,
};

enum asm_segment { ASM_CS = 1, ASM_SS = 2 };

enum asm_width { ASM_32, ASM_64 };

/* %gs:disp(base,index); without a base, the absolute address disp, sign-extended. */
struct asm_mem {
	enum asm_reg base, index; /* an index needs a base */
	int32_t disp;
	bool gs;
};

static inline struct asm_mem asm_at(enum asm_reg base, uint32_t disp)
{
	return (struct asm_mem){base, ASM_NO_REG, (int32_t)disp, false};
}

struct assembler {
	uint8_t *bytes;
	size_t size, capacity;
	size_t beyond; /* bytes that came when there was no room */
	uint64_t gva; /* where bytes[0] will run */
	int error;    /* the first one: -ENOSPC, -ERANGE (a jump too far), -EINVAL (a bad label) */
	unsigned int open_labels;
};

/*
 * A place in the code. Zero-initialise; jump to it before or after it is bound. Until it is bound,
 * each jump's distance holds where the jump before it has its own.
 */
struct asm_label {
	bool bound;
	uint32_t at;
	uint32_t last_ref; /* of the jumps; 0 = none, as an opcode precedes each distance */
};

/* A condition and its opposite differ in the lowest bit. */
enum asm_condition {
	ASM_B = 2,
	ASM_AE = 3,
	ASM_E = 4,
	ASM_NE = 5,
	ASM_BE = 6,
	ASM_A = 7,
	ASM_L = 12,
	ASM_GE = 13,
	ASM_LE = 14,
	ASM_G = 15,
};

enum asm_alu { ASM_ADD = 0, ASM_OR = 1, ASM_AND = 4, ASM_SUB = 5, ASM_CMP = 7 };

/* The code goes to bytes[0..capacity), which stays the caller's. */
void assembler_init(struct assembler *a, uint8_t *bytes, size_t capacity, uint64_t gva);
/* 0, or the first error. */
int assembler_finish(const struct assembler *a, struct error *err);

/* Instructions without operands, and others whose bytes are fixed. */
void asm_bytes(struct assembler *a, const void *bytes, size_t size);
void asm_push(struct assembler *a, enum asm_reg reg);
void asm_pop(struct assembler *a, enum asm_reg reg);

void asm_move(struct assembler *a, enum asm_reg to, enum asm_reg from); /* 64 bits */
void asm_move_segment(struct assembler *a, enum asm_reg to, enum asm_segment from);
void asm_load(struct assembler *a, enum asm_width width, enum asm_reg reg, struct asm_mem mem);
void asm_store(struct assembler *a, enum asm_width width, struct asm_mem mem, enum asm_reg reg);
/* reg = 32 bits at mem, sign-extended to 64 */
void asm_load_signed(struct assembler *a, enum asm_reg reg, struct asm_mem mem);
/* to = the lowest 1, 2, 4 or 8 bytes of from, extended to 64 bits */
void asm_extend(struct assembler *a, enum asm_reg to, enum asm_reg from, uint8_t bytes,
		bool is_signed);
void asm_lea(struct assembler *a, enum asm_reg reg, struct asm_mem mem);
void asm_xadd(struct assembler *a, struct asm_mem mem, enum asm_reg reg); /* 64 bits, no LOCK */
void asm_increment(struct assembler *a, struct asm_mem mem);              /* 64 bits, no LOCK */
/* reg = the 32 bits at mem * factor */
void asm_multiply(struct assembler *a, enum asm_reg reg, struct asm_mem mem, int32_t factor);
/* to = from * factor, 32 bits; 64 bits */
void asm_multiply_reg(struct assembler *a, enum asm_reg to, enum asm_reg from, uint32_t factor);
void asm_multiply_long(struct assembler *a, enum asm_reg to, enum asm_reg from, int32_t factor);
/* LOCK: 64 bits at mem = reg if they were RAX, and E; else RAX = them */
void asm_compare_exchange(struct assembler *a, struct asm_mem mem, enum asm_reg reg);
void asm_compare_load(struct assembler *a, enum asm_reg reg, struct asm_mem mem); /* 64 bits */
void asm_compare_mem(struct assembler *a, struct asm_mem mem, int8_t value);      /* 32 bits */
void asm_compare_byte(struct assembler *a, struct asm_mem mem, uint8_t value); /* 8 bits */
void asm_compare_mem_constant(struct assembler *a, enum asm_width width, struct asm_mem mem,
			      int32_t value);
void asm_test_mem_bits(struct assembler *a, struct asm_mem mem, uint32_t bits); /* 32 bits */
/* ASM_64: sign-extended */
void asm_store_constant(struct assembler *a, enum asm_width width, struct asm_mem mem,
			uint32_t value);
void asm_constant32(struct assembler *a, enum asm_reg reg, uint32_t value); /* zero-extended */
void asm_constant64(struct assembler *a, enum asm_reg reg, uint64_t value);
void asm_alu(struct assembler *a, enum asm_width width, enum asm_alu op, enum asm_reg reg,
	     int32_t value);
void asm_add(struct assembler *a, enum asm_reg to, enum asm_reg from);       /* 64 bits */
void asm_add_load(struct assembler *a, enum asm_reg to, struct asm_mem mem); /* 64 bits */
void asm_sub(struct assembler *a, enum asm_reg to, enum asm_reg from);       /* 64 bits */
void asm_and(struct assembler *a, enum asm_reg to, enum asm_reg from);       /* 64 bits */
void asm_compare(struct assembler *a, enum asm_reg reg, enum asm_reg with);  /* 64 bits */
void asm_add_to_mem(struct assembler *a, struct asm_mem mem,
		    enum asm_reg from); /* 64 bits, no LOCK */
void asm_shift_left(struct assembler *a, enum asm_reg reg, uint8_t bits);
void asm_shift_right(struct assembler *a, enum asm_reg reg, uint8_t bits);
void asm_rotate_left(struct assembler *a, enum asm_reg reg, uint8_t bits); /* 64 bits */
void asm_negate(struct assembler *a, enum asm_reg reg);                   /* 32 bits */
void asm_test_bits(struct assembler *a, enum asm_reg reg, uint32_t bits); /* 32 bits */

void asm_bind(struct assembler *a, struct asm_label *label);
void asm_jump(struct assembler *a, struct asm_label *label);
void asm_jump_if(struct assembler *a, enum asm_condition condition, struct asm_label *label);
void asm_jump_to(struct assembler *a, uint64_t gva);
void asm_call_to(struct assembler *a, uint64_t gva);

#endif
