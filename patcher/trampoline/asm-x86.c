/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/asm-x86.h"

#include <errno.h>
#include <string.h>

enum {
	REL32_SIZE = 4,
	GS_PREFIX = 0x65,
	LOCK_PREFIX = 0xf0,
	REX = 0x40,
	REX_W = 8,
	REX_R = 4,
	REX_X = 2,
	REX_B = 1
};

void assembler_init(struct assembler *a, uint8_t *bytes, size_t capacity, uint64_t gva)
{
	*a = (struct assembler){.bytes = bytes, .capacity = capacity, .gva = gva};
}

static void fail(struct assembler *a, int error)
{
	if (!a->error)
		a->error = error;
}

int assembler_finish(const struct assembler *a, struct error *err)
{
	if (a->error == -ENOSPC)
		return error_set(err, ENOSPC, "the code takes %zu bytes, %zu are the most",
				 a->size + a->beyond, a->capacity);
	if (a->error == -ERANGE)
		return error_set_at(err, ERANGE, a->gva, "a jump out of the code reaches too far");
	if (a->error || a->open_labels)
		return error_set(err, EINVAL, "the code jumps to a label that is nowhere");
	return 0;
}

void asm_bytes(struct assembler *a, const void *bytes, size_t size)
{
	if (size > a->capacity - a->size) {
		fail(a, -ENOSPC);
		a->beyond += size;
		return;
	}
	memcpy(a->bytes + a->size, bytes, size);
	a->size += size;
}

static void byte(struct assembler *a, unsigned int value)
{
	asm_bytes(a, &(uint8_t){(uint8_t)value}, 1);
}

static void word(struct assembler *a, uint32_t value)
{
	uint8_t le[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
			 (uint8_t)(value >> 24)};

	asm_bytes(a, le, sizeof(le));
}

/* Opcodes of two bytes are written 0x0fNN. */
static void opcode(struct assembler *a, unsigned int op)
{
	if (op > 0xff)
		byte(a, op >> 8);
	byte(a, op);
}

static void rex(struct assembler *a, enum asm_width width, unsigned int bits)
{
	if (width == ASM_64)
		bits |= REX_W;
	if (bits)
		byte(a, REX | bits);
}

static unsigned int high(enum asm_reg reg, unsigned int rex_bit)
{
	return reg != ASM_NO_REG && reg >= ASM_R8 ? rex_bit : 0;
}

/* `reg` is the opcode's extension where there is no second register. */
static void op_mem(struct assembler *a, enum asm_width width, unsigned int op, unsigned int reg,
		   struct asm_mem m)
{
	unsigned int fields = (reg & 7) << 3;

	if (m.gs)
		byte(a, GS_PREFIX);
	rex(a, width, high(reg, REX_R) | high(m.index, REX_X) | high(m.base, REX_B));
	opcode(a, op);
	if (m.base == ASM_NO_REG) {
		byte(a, fields | 4); /* a SIB byte with neither base nor index */
		byte(a, 0x25);
	} else if (m.index != ASM_NO_REG || (m.base & 7) == ASM_RSP) {
		unsigned int index = m.index == ASM_NO_REG ? 4 : m.index & 7;

		byte(a, 0x80 | fields | 4);
		byte(a, index << 3 | (m.base & 7));
	} else {
		byte(a, 0x80 | fields | (m.base & 7));
	}
	word(a, (uint32_t)m.disp);
}

static void op_reg(struct assembler *a, enum asm_width width, unsigned int op, unsigned int reg,
		   enum asm_reg rm)
{
	rex(a, width, high(reg, REX_R) | high(rm, REX_B));
	opcode(a, op);
	byte(a, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

void asm_push(struct assembler *a, enum asm_reg reg)
{
	rex(a, ASM_32, high(reg, REX_B));
	byte(a, 0x50 | (reg & 7));
}

void asm_pop(struct assembler *a, enum asm_reg reg)
{
	rex(a, ASM_32, high(reg, REX_B));
	byte(a, 0x58 | (reg & 7));
}

void asm_move(struct assembler *a, enum asm_reg to, enum asm_reg from)
{
	op_reg(a, ASM_64, 0x89, from, to);
}

/* Zero-extended. */
void asm_move_segment(struct assembler *a, enum asm_reg to, enum asm_segment from)
{
	op_reg(a, ASM_64, 0x8c, from, to);
}

void asm_load(struct assembler *a, enum asm_width width, enum asm_reg reg, struct asm_mem mem)
{
	op_mem(a, width, 0x8b, reg, mem);
}

void asm_store(struct assembler *a, enum asm_width width, struct asm_mem mem, enum asm_reg reg)
{
	op_mem(a, width, 0x89, reg, mem);
}

void asm_load_signed(struct assembler *a, enum asm_reg reg, struct asm_mem mem)
{
	op_mem(a, ASM_64, 0x63, reg, mem);
}

void asm_extend(struct assembler *a, enum asm_reg to, enum asm_reg from, uint8_t bytes,
		bool is_signed)
{
	if (bytes < 4)
		op_reg(a, ASM_64, (is_signed ? 0x0fbe : 0x0fb6) | (bytes == 2), to, from);
	else if (bytes == 4 && is_signed)
		op_reg(a, ASM_64, 0x63, to, from);
	else
		op_reg(a, bytes == 4 ? ASM_32 : ASM_64, 0x8b, to, from);
}

void asm_lea(struct assembler *a, enum asm_reg reg, struct asm_mem mem)
{
	op_mem(a, ASM_64, 0x8d, reg, mem);
}

void asm_xadd(struct assembler *a, struct asm_mem mem, enum asm_reg reg)
{
	op_mem(a, ASM_64, 0x0fc1, reg, mem);
}

void asm_increment(struct assembler *a, struct asm_mem mem)
{
	op_mem(a, ASM_64, 0xff, 0, mem);
}

void asm_multiply(struct assembler *a, enum asm_reg reg, struct asm_mem mem, int32_t factor)
{
	op_mem(a, ASM_32, 0x69, reg, mem);
	word(a, (uint32_t)factor);
}

void asm_multiply_reg(struct assembler *a, enum asm_reg to, enum asm_reg from, uint32_t factor)
{
	op_reg(a, ASM_32, 0x69, to, from);
	word(a, factor);
}

void asm_multiply_long(struct assembler *a, enum asm_reg to, enum asm_reg from, int32_t factor)
{
	op_reg(a, ASM_64, 0x69, to, from);
	word(a, (uint32_t)factor);
}

void asm_compare_exchange(struct assembler *a, struct asm_mem mem, enum asm_reg reg)
{
	byte(a, LOCK_PREFIX);
	op_mem(a, ASM_64, 0x0fb1, reg, mem);
}

void asm_compare_load(struct assembler *a, enum asm_reg reg, struct asm_mem mem)
{
	op_mem(a, ASM_64, 0x3b, reg, mem);
}

void asm_compare_mem(struct assembler *a, struct asm_mem mem, int8_t value)
{
	op_mem(a, ASM_32, 0x83, ASM_CMP, mem);
	byte(a, (uint8_t)value);
}

void asm_compare_byte(struct assembler *a, struct asm_mem mem, uint8_t value)
{
	op_mem(a, ASM_32, 0x80, ASM_CMP, mem);
	byte(a, value);
}

void asm_compare_mem_constant(struct assembler *a, enum asm_width width, struct asm_mem mem,
			      int32_t value)
{
	op_mem(a, width, 0x81, ASM_CMP, mem);
	word(a, (uint32_t)value);
}

void asm_test_mem_bits(struct assembler *a, struct asm_mem mem, uint32_t bits)
{
	op_mem(a, ASM_32, 0xf7, 0, mem);
	word(a, bits);
}

void asm_store_constant(struct assembler *a, enum asm_width width, struct asm_mem mem,
			uint32_t value)
{
	op_mem(a, width, 0xc7, 0, mem);
	word(a, value);
}

void asm_constant32(struct assembler *a, enum asm_reg reg, uint32_t value)
{
	rex(a, ASM_32, high(reg, REX_B));
	byte(a, 0xb8 | (reg & 7));
	word(a, value);
}

void asm_constant64(struct assembler *a, enum asm_reg reg, uint64_t value)
{
	rex(a, ASM_64, high(reg, REX_B));
	byte(a, 0xb8 | (reg & 7));
	word(a, (uint32_t)value);
	word(a, (uint32_t)(value >> 32));
}

void asm_alu(struct assembler *a, enum asm_width width, enum asm_alu op, enum asm_reg reg,
	     int32_t value)
{
	op_reg(a, width, 0x81, op, reg);
	word(a, (uint32_t)value);
}

void asm_add(struct assembler *a, enum asm_reg to, enum asm_reg from)
{
	op_reg(a, ASM_64, 0x01, from, to);
}

void asm_add_load(struct assembler *a, enum asm_reg to, struct asm_mem mem)
{
	op_mem(a, ASM_64, 0x03, to, mem);
}

void asm_sub(struct assembler *a, enum asm_reg to, enum asm_reg from)
{
	op_reg(a, ASM_64, 0x29, from, to);
}

void asm_and(struct assembler *a, enum asm_reg to, enum asm_reg from)
{
	op_reg(a, ASM_64, 0x21, from, to);
}

void asm_compare(struct assembler *a, enum asm_reg reg, enum asm_reg with)
{
	op_reg(a, ASM_64, 0x39, with, reg);
}

void asm_add_to_mem(struct assembler *a, struct asm_mem mem, enum asm_reg from)
{
	op_mem(a, ASM_64, 0x01, from, mem);
}

void asm_shift_left(struct assembler *a, enum asm_reg reg, uint8_t bits)
{
	op_reg(a, ASM_64, 0xc1, 4, reg);
	byte(a, bits);
}

void asm_shift_right(struct assembler *a, enum asm_reg reg, uint8_t bits)
{
	op_reg(a, ASM_64, 0xc1, 5, reg);
	byte(a, bits);
}

void asm_rotate_left(struct assembler *a, enum asm_reg reg, uint8_t bits)
{
	op_reg(a, ASM_64, 0xc1, 0, reg);
	byte(a, bits);
}

void asm_negate(struct assembler *a, enum asm_reg reg)
{
	op_reg(a, ASM_32, 0xf7, 3, reg);
}

void asm_test_bits(struct assembler *a, enum asm_reg reg, uint32_t bits)
{
	op_reg(a, ASM_32, 0xf7, 0, reg);
	word(a, bits);
}

/* Distances are counted from the end of the field, where these instructions end. */
static void patch_rel32(struct assembler *a, uint32_t field, uint32_t target)
{
	int32_t rel = (int32_t)target - (int32_t)(field + REL32_SIZE);

	memcpy(a->bytes + field, &rel, sizeof(rel));
}

static void rel32_label(struct assembler *a, struct asm_label *label)
{
	uint32_t field = (uint32_t)a->size;

	word(a, 0);
	if (a->error)
		return;
	if (label->bound) {
		patch_rel32(a, field, label->at);
		return;
	}
	a->open_labels += !label->last_ref;
	memcpy(a->bytes + field, &label->last_ref, sizeof(label->last_ref));
	label->last_ref = field;
}

void asm_bind(struct assembler *a, struct asm_label *label)
{
	uint32_t before;

	if (label->bound)
		fail(a, -EINVAL);
	label->bound = true;
	label->at = (uint32_t)a->size;
	a->open_labels -= label->last_ref > 0;
	for (uint32_t ref = label->last_ref; ref; ref = before) {
		memcpy(&before, a->bytes + ref, sizeof(before));
		patch_rel32(a, ref, label->at);
	}
}

void asm_jump(struct assembler *a, struct asm_label *label)
{
	byte(a, 0xe9);
	rel32_label(a, label);
}

void asm_jump_if(struct assembler *a, enum asm_condition condition, struct asm_label *label)
{
	opcode(a, 0x0f80u | condition);
	rel32_label(a, label);
}

static void branch_to(struct assembler *a, uint8_t opcode, uint64_t gva)
{
	int64_t rel;

	byte(a, opcode);
	rel = (int64_t)(gva - (a->gva + a->size + REL32_SIZE));
	if (rel != (int32_t)rel)
		fail(a, -ERANGE);
	word(a, (uint32_t)rel);
}

void asm_jump_to(struct assembler *a, uint64_t gva)
{
	branch_to(a, 0xe9, gva);
}

void asm_call_to(struct assembler *a, uint64_t gva)
{
	branch_to(a, 0xe8, gva);
}
