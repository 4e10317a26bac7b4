/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Encodings: Intel SDM vol. 2, 2.1 and 2.2.1 (ModRM, REX). */
#include "patcher/text/function.h"

#include <string.h>

enum operation { POP, LEAVE, ADD, COPY, SET };

enum { RSP = 4, RBP = 5, REGISTERS = 16 };

enum { REX = 0x40, REX_B = 1, REX_R = 4, REX_W = 8 };

enum {
	XOR_STORE = 0x31,
	XOR_LOAD = 0x33,
	POP_REG = 0x58,
	GROUP1_IMM32 = 0x81,
	GROUP1_IMM8 = 0x83,
	MOV_STORE = 0x89,
	MOV_LOAD = 0x8b,
	LEA = 0x8d,
	MOV_IMM32 = 0xb8,
	LEAVE_FRAME = 0xc9,
};

/* `to` gets what the operation makes of `from` and `value`. */
struct epilogue_insn {
	enum operation operation;
	uint8_t to, from;
	bool narrow; /* the upper half of `to` becomes 0 */
	int64_t value;
	size_t size;
};

/* --- decoding --------------------------------------------------------------------------------- */

struct modrm {
	uint8_t mod, reg, rm; /* registers with the bits of REX */
	uint8_t field;        /* `reg` without them: an opcode's digit */
};

static struct modrm modrm_of(uint8_t byte, uint8_t rex)
{
	const uint8_t reg = (byte >> 3) & 7;

	return (struct modrm){.mod = byte >> 6,
			      .field = reg,
			      .reg = (uint8_t)(reg | (rex & REX_R ? 8 : 0)),
			      .rm = (uint8_t)((byte & 7) | (rex & REX_B ? 8 : 0))};
}

static int64_t signed_at(const uint8_t *bytes, size_t size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)bytes[0];
	memcpy(&wide, bytes, sizeof(wide));
	return wide;
}

/* mov and xor of two registers; of xor only those that clear one. */
static bool decode_copy(uint8_t opcode, struct modrm m, struct epilogue_insn *out)
{
	const bool moves = opcode == MOV_STORE || opcode == MOV_LOAD;
	const bool loads = opcode == MOV_LOAD || opcode == XOR_LOAD;

	if ((!moves && opcode != XOR_STORE && opcode != XOR_LOAD) || m.mod != 3)
		return false;
	out->to = loads ? m.reg : m.rm;
	out->from = loads ? m.rm : m.reg;
	out->operation = moves ? COPY : SET;
	return moves || out->to == out->from;
}

/* lea DISP(%from),%to, and additions to RSP. `size`: of the constant. */
static bool decode_add(uint8_t opcode, struct modrm m, size_t *size, struct epilogue_insn *out)
{
	out->operation = ADD;
	out->from = m.rm;
	if (opcode == LEA) {
		out->to = m.reg;
		*size = m.mod == 1 ? 1 : 4;
		return (m.mod == 1 || m.mod == 2) && (m.rm & 7) != RSP; /* no SIB byte */
	}
	out->to = m.rm;
	*size = opcode == GROUP1_IMM8 ? 1 : 4;
	return m.mod == 3 && m.field == 0 && m.rm == RSP;
}

static bool decode_with_modrm(const uint8_t *bytes, size_t left, uint8_t rex,
			      struct epilogue_insn *out)
{
	const uint8_t opcode = bytes[0];
	struct modrm m;
	size_t constant = 0;
	bool known;

	if (left < 2)
		return false;
	m = modrm_of(bytes[1], rex);
	if (opcode == LEA || opcode == GROUP1_IMM8 || opcode == GROUP1_IMM32)
		known = (rex & REX_W) && decode_add(opcode, m, &constant, out);
	else
		known = decode_copy(opcode, m, out);
	out->size = 2 + constant;
	if (!known || left < out->size)
		return false;
	if (constant)
		out->value = signed_at(bytes + 2, constant);
	return true;
}

/* Without the prefix. */
static bool decode_opcode(const uint8_t *bytes, size_t left, uint8_t rex, struct epilogue_insn *out)
{
	const uint8_t number = (uint8_t)((bytes[0] & 7) | (rex & REX_B ? 8 : 0));

	out->size = 1;
	out->to = number;
	if (bytes[0] == LEAVE_FRAME) {
		out->operation = LEAVE;
		return true;
	}
	if ((bytes[0] & ~7) == POP_REG) {
		out->operation = POP;
		return number != RSP;
	}
	if ((bytes[0] & ~7) != MOV_IMM32)
		return decode_with_modrm(bytes, left, rex, out);
	out->operation = SET;
	out->size = 5;
	if ((rex & REX_W) || left < out->size)
		return false;
	out->value = signed_at(bytes + 1, 4);
	return true;
}

static bool decode(const uint8_t *bytes, size_t left, struct epilogue_insn *out)
{
	const size_t prefix = left && (bytes[0] & 0xf0) == REX;
	const uint8_t rex = prefix ? bytes[0] : 0;

	*out = (struct epilogue_insn){.narrow = !(rex & REX_W)};
	if (left <= prefix || !decode_opcode(bytes + prefix, left - prefix, rex, out))
		return false;
	out->size += prefix;
	return true;
}

bool epilogue_is_known(const uint8_t *bytes, size_t size)
{
	struct epilogue_insn insn;

	for (size_t at = 0; at < size; at += insn.size)
		if (!decode(bytes + at, size - at, &insn))
			return false;
	return true;
}

/* --- execution -------------------------------------------------------------------------------- */

/* By the numbers of the encoding. */
static uint64_t *reg_at(struct guest_regs *regs, uint8_t number)
{
	uint64_t *const all[REGISTERS] = {&regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
					  &regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
					  &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
					  &regs->r12, &regs->r13, &regs->r14, &regs->r15};

	return all[number % REGISTERS];
}

static int pop(const struct kernel *kernel, struct guest_regs *regs, uint8_t to, struct error *err)
{
	uint64_t word;
	int ret = kernel_read(kernel, regs->rsp, &word, sizeof(word), err);

	if (ret)
		return ret;
	regs->rsp += sizeof(word);
	*reg_at(regs, to) = word;
	return 0;
}

static int execute(const struct epilogue_insn *insn, const struct kernel *kernel,
		   struct guest_regs *regs, struct error *err)
{
	uint64_t result = 0;

	switch (insn->operation) {
	case POP:
		return pop(kernel, regs, insn->to, err);
	case LEAVE:
		regs->rsp = regs->rbp;
		return pop(kernel, regs, RBP, err);
	case ADD:
		result = *reg_at(regs, insn->from) + (uint64_t)insn->value;
		break;
	case COPY:
		result = *reg_at(regs, insn->from);
		break;
	case SET:
		result = (uint64_t)insn->value;
		break;
	}
	*reg_at(regs, insn->to) = insn->narrow ? (uint32_t)result : result;
	return 0;
}

int epilogue_run(const struct epilogue *epilogue, const struct kernel *kernel,
		 struct guest_regs *regs, struct error *err)
{
	const size_t size = epilogue->size;
	struct guest_regs after = *regs;
	struct epilogue_insn insn;
	int ret = 0;

	for (size_t at = 0; !ret && at < size && decode(epilogue->bytes + at, size - at, &insn);
	     at += insn.size)
		ret = execute(&insn, kernel, &after, err);
	if (!ret)
		*regs = after;
	return ret;
}
