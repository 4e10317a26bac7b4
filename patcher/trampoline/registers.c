/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's registers as they were at the probed place, as its own kprobes have them. */
#include "patcher/trampoline/code.h"

enum {
	WORD = 8,
	RETURN_ADDRESS = 8, /* of an entry's site, from the flags */
	INT3_SIZE = 1,      /* a kprobe sees IP behind its INT3, also where it has none */
};

static bool is_preserved(enum fetch_register reg)
{
	return reg == FETCH_SP || reg == FETCH_BX || reg == FETCH_BP || reg >= FETCH_R12;
}

bool register_is_known(enum fetch_register reg, enum probe_point point)
{
	if (is_preserved(reg) || point == POINT_INSIDE)
		return reg <= FETCH_ORIG_AX;
	if (point == POINT_RETURN)
		return reg == FETCH_AX;
	return reg == FETCH_DI || reg == FETCH_SI || reg == FETCH_DX || reg == FETCH_CX ||
	       reg == FETCH_R8 || reg == FETCH_R9;
}

bool register_is_live(const struct direct_code *d, enum fetch_register reg)
{
	return reg <= FETCH_R15 && reg != FETCH_SP && !direct_saved_at(d, (enum asm_reg)reg);
}

/* A call's return address lies there; behind a return it is gone. */
static void emit_stack_pointer(const struct direct_code *d, enum asm_reg to, uint32_t flags_at)
{
	const uint32_t at = d->caller_at + (d->point == POINT_RETURN ? WORD : 0);

	asm_lea(d->a, to, asm_at(ASM_RSP, flags_at + at));
}

static void emit_ip(const struct direct_code *d, enum asm_reg to, uint32_t flags_at)
{
	const uint64_t from_end = INT3_SIZE - SITE_SIZE;

	if (d->point == POINT_RETURN) {
		asm_load(d->a, ASM_64, to, asm_at(ASM_RSP, flags_at + d->caller_at));
	} else if (d->ip) {
		asm_constant64(d->a, to, d->ip + from_end);
	} else {
		asm_load(d->a, ASM_64, to, asm_at(ASM_RSP, flags_at + RETURN_ADDRESS));
		asm_alu(d->a, ASM_64, ASM_ADD, to, (int32_t)from_end);
	}
}

/* The lower ones by their numbers in instructions. */
static void emit_general(const struct direct_code *d, enum asm_reg to, enum asm_reg reg,
			 uint32_t flags_at)
{
	const uint32_t saved_at = direct_saved_at(d, reg);

	if (saved_at)
		asm_load(d->a, ASM_64, to, asm_at(ASM_RSP, flags_at + saved_at));
	else
		asm_move(d->a, to, reg);
}

void register_emit(const struct direct_code *d, enum asm_reg to, enum fetch_register reg,
		   uint32_t flags_at)
{
	switch (reg) {
	case FETCH_SP:
		emit_stack_pointer(d, to, flags_at);
		break;
	case FETCH_FLAGS:
		asm_load(d->a, ASM_64, to, asm_at(ASM_RSP, flags_at));
		break;
	case FETCH_IP:
		emit_ip(d, to, flags_at);
		break;
	case FETCH_CS:
		asm_move_segment(d->a, to, ASM_CS);
		break;
	case FETCH_SS:
		asm_move_segment(d->a, to, ASM_SS);
		break;
	case FETCH_ORIG_AX:
		asm_constant64(d->a, to, UINT64_MAX);
		break;
	default:
		emit_general(d, to, (enum asm_reg)reg, flags_at);
	}
}
