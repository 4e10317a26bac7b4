/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "patcher/text/function.h"

enum {
	WORD = 8,
	REX_W = 0x48,
	REX_B = 0x41, /* r8 to r15 */
	OPCODE_PUSH = 0x50,
	OPCODE_POP = 0x58,
	OPCODE_LEAVE = 0xc9,
	OPCODE_ARITHMETIC_IMM8 = 0x83,
	OPCODE_ARITHMETIC_IMM32 = 0x81,
	ADD_RSP = 0xc4,
	SUB_RSP = 0xec,
	AND_RSP = 0xe4,
};

/* Bytes of the frame in use, the return address not included. */
struct depth {
	int64_t now, most;
	bool varies; /* it is aligned: the caller decides how many */
};

static int64_t immediate(const uint8_t *code)
{
	int32_t value;

	if (code[1] == OPCODE_ARITHMETIC_IMM8)
		return (int8_t)code[3];
	memcpy(&value, code + 3, sizeof(value));
	return value;
}

/* An addition to RSP, or what takes from it. */
static void adjust(struct depth *depth, const uint8_t *code)
{
	if (code[2] == SUB_RSP)
		depth->now += immediate(code);
	else if (code[2] == ADD_RSP)
		depth->now -= immediate(code);
	else if (code[2] == AND_RSP)
		depth->varies = true;
}

static void step(struct depth *depth, const struct insn *insn, const uint8_t *code)
{
	const bool extended = insn->size == 2 && code[0] == REX_B;
	const uint8_t opcode = code[extended];

	if (insn->size == 1 + extended && (opcode & ~7) == OPCODE_PUSH)
		depth->now += WORD;
	else if (insn->size == 1 + extended && (opcode & ~7) == OPCODE_POP)
		depth->now -= WORD;
	else if (insn->size == 1 && opcode == OPCODE_LEAVE)
		depth->now = 0;
	else if (insn->size >= 4 && code[0] == REX_W &&
		 (code[1] == OPCODE_ARITHMETIC_IMM8 || code[1] == OPCODE_ARITHMETIC_IMM32))
		adjust(depth, code);
	if (depth->now < 0 || insn->kind == INSN_RET)
		depth->now = 0;
	if (depth->most < depth->now)
		depth->most = depth->now;
}

uint64_t function_frame(const struct kernel_image *image, struct decoder *decoder, uint64_t link,
			uint64_t size)
{
	const uint8_t *code = kernel_image_bytes(image, link, size);
	struct depth depth = {0};
	struct insn insn;

	for (uint64_t at = 0; code && at < size; at += insn.size) {
		if (decoder_decode(decoder, code + at, size - at, link + at, &insn, NULL))
			return 0;
		step(&depth, &insn, code + at);
	}
	return code && !depth.varies ? (uint64_t)depth.most + WORD : 0;
}
