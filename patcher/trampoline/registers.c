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

/* RAX and RDX have the result, of up to 16 bytes. */
bool register_is_known(enum fetch_register reg, enum probe_point point)
{
	if (reg == FETCH_USER_REGS)
		return point == POINT_RETURN;
	if (reg > FETCH_ORIG_AX)
		return false;
	return point != POINT_RETURN || is_preserved(reg) || reg == FETCH_AX || reg == FETCH_DX;
}

bool register_is_kept(enum fetch_register reg, enum probe_point point)
{
	if (reg == FETCH_USER_REGS)
		return point == POINT_RETURN;
	if (reg > FETCH_R15 || reg == FETCH_SP || point == POINT_INSIDE)
		return false;
	if (is_preserved(reg))
		return true;
	return point == POINT_RETURN ? reg == FETCH_AX
				     : reg != FETCH_AX && reg != FETCH_R10 && reg != FETCH_R11;
}

bool register_is_live(const struct direct_code *d, enum fetch_register reg)
{
	return reg <= FETCH_R15 && reg != FETCH_SP && !direct_saved_at(d, (enum asm_reg)reg);
}

/* --- those that the code would change --------------------------------------------------------- */

enum { NR_GENERAL = FETCH_R15 + 1, BIT = 1 };

static uint32_t bit_of(unsigned int reg)
{
	return reg < NR_GENERAL ? (uint32_t)BIT << reg : 0;
}

static uint32_t named_by_hist(const struct hist_program *p)
{
	uint32_t named = 0;

	for (size_t i = 0; i < p->nr_keys; i++)
		named |= p->keys[i].source == HIST_REGISTER ? bit_of(p->keys[i].reg) : 0;
	for (size_t i = 0; i < p->nr_values; i++)
		named |= p->values[i].source == HIST_REGISTER ? bit_of(p->values[i].reg) : 0;
	return named;
}

static uint32_t named_by(const struct direct_spec *record)
{
	uint32_t named = record->hist ? named_by_hist(record->hist->program) : 0;

	for (size_t i = 0; record->fetch && i < record->fetch->nr_args; i++) {
		const struct fetch_op *op = &record->fetch->args[i].ops[0];

		named |= op->kind == FETCH_REGISTER ? bit_of(op->reg) : 0;
	}
	return named;
}

void registers_choose(struct direct_code *d, uint32_t changed)
{
	uint32_t named = 0;

	for (size_t i = 0; i < d->n; i++)
		named |= named_by(&d->records[i]);
	d->saved = named & changed;
	d->pushed = (uint32_t)(WORD * __builtin_popcount(d->saved));
}

void registers_push(const struct direct_code *d)
{
	for (unsigned int reg = 0; reg < NR_GENERAL; reg++)
		if (d->saved & bit_of(reg))
			asm_push(d->a, (enum asm_reg)reg);
}

void registers_drop(const struct direct_code *d)
{
	if (d->pushed)
		asm_alu(d->a, ASM_64, ASM_ADD, ASM_RSP, (int32_t)d->pushed);
}

/* In the order in which they are pushed, or in which inside.c does so in front of the flags. */
int32_t direct_saved_at(const struct direct_code *d, enum asm_reg reg)
{
	if (d->point != POINT_INSIDE)
		return d->saved & bit_of(reg)
			       ? -WORD * (1 + __builtin_popcount(d->saved & (bit_of(reg) - 1)))
			       : 0;
	switch (reg) {
	case ASM_R11:
		return WORD;
	case ASM_R10:
		return 2 * WORD;
	case ASM_RAX:
		return 3 * WORD;
	default:
		return 0;
	}
}

/* --- the guest's values ----------------------------------------------------------------------- */

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
	const int32_t saved_at = direct_saved_at(d, reg);

	if (saved_at)
		asm_load(d->a, ASM_64, to, asm_at(ASM_RSP, flags_at + (uint32_t)saved_at));
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
	case FETCH_USER_REGS:
		code_load_task_word(d->a, ASM_64, to, d->kernel, d->kernel->task_stack);
		asm_lea(d->a, to, asm_at(to, d->kernel->user_regs));
		break;
	default:
		emit_general(d, to, (enum asm_reg)reg, flags_at);
	}
}
