/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a call chain is made of: a part of the stack, and the registers that lead through it. */
#include "patcher/trampoline/code.h"

static const enum asm_reg saved_regs[] = {ASM_RSI, ASM_RDI, ASM_RCX, ASM_RAX};

/* At entries RAX holds nothing. */
static int nr_saved(const struct stack_code *s)
{
	const int all = sizeof(saved_regs) / sizeof(saved_regs[0]);

	return s->keep_rax ? all : all - 1;
}

static struct asm_mem stack_at(const struct stack_code *s, size_t offset)
{
	return ring_record_at(s->ring, s->to + offset);
}

/* RCX = bytes from RSI up to the end of the task's stack, of which RAX is the lowest address. Goes
 * to `other` where RSI is not on it. */
static void emit_task_bytes(const struct stack_code *s, struct asm_label *other)
{
	const int32_t stack_bytes = (int32_t)s->kernel->stack_bytes;

	asm_move(s->a, ASM_RCX, ASM_RSI);
	asm_sub(s->a, ASM_RCX, ASM_RAX);
	asm_alu(s->a, ASM_64, ASM_CMP, ASM_RCX, stack_bytes);
	asm_jump_if(s->a, ASM_AE, other);
	asm_negate(s->a, ASM_RCX);
	asm_alu(s->a, ASM_32, ASM_ADD, ASM_RCX, stack_bytes);
}

/* RCX = bytes from RSI up to where the stack may end: direct_stack_words(). */
static void emit_bytes(const struct stack_code *s)
{
	struct asm_label other = {0}, known = {0};

	emit_task_bytes(s, &other);
	asm_jump(s->a, &known);
	asm_bind(s->a, &other);
	asm_move(s->a, ASM_RCX, ASM_RSI);
	asm_alu(s->a, ASM_32, ASM_AND, ASM_RCX, DIRECT_PAGE_BYTES - 1);
	asm_negate(s->a, ASM_RCX);
	asm_alu(s->a, ASM_32, ASM_ADD, ASM_RCX, DIRECT_PAGE_BYTES);
	asm_bind(s->a, &known);
}

static const uint8_t rep_movsq[] = {0xf3, 0x48, 0xa5};

static void emit_words(const struct stack_code *s)
{
	const int32_t most = (int32_t)(s->words * sizeof(uint64_t));
	struct asm_label fits = {0};

	asm_alu(s->a, ASM_32, ASM_CMP, ASM_RCX, most);
	asm_jump_if(s->a, ASM_BE, &fits);
	asm_constant32(s->a, ASM_RCX, (uint32_t)most);
	asm_bind(s->a, &fits);
	asm_shift_right(s->a, ASM_RCX, 3);
	asm_lea(s->a, ASM_RDI, stack_at(s, offsetof(struct direct_stack, words)));
	asm_bytes(s->a, rep_movsq, sizeof(rep_movsq));
}

/* direct_stack_rest(). RSI and RDI are behind the words that were copied. */
static void emit_rest(const struct stack_code *s)
{
	const size_t end = offsetof(struct direct_stack, words) + s->words * sizeof(uint64_t);
	struct asm_label none = {0}, fits = {0};

	asm_test_bits(s->a, ASM_RSI, DIRECT_PAGE_BYTES - 1);
	asm_jump_if(s->a, ASM_NE, &none);
	asm_load(s->a, ASM_64, ASM_RSI, asm_at(ASM_RSI, (uint32_t)-8));
	emit_task_bytes(s, &none);
	asm_lea(s->a, ASM_RAX, stack_at(s, end));
	asm_sub(s->a, ASM_RAX, ASM_RDI);
	asm_compare(s->a, ASM_RCX, ASM_RAX);
	asm_jump_if(s->a, ASM_BE, &fits);
	asm_move(s->a, ASM_RCX, ASM_RAX);
	asm_bind(s->a, &fits);
	asm_shift_right(s->a, ASM_RCX, 3);
	asm_bytes(s->a, rep_movsq, sizeof(rep_movsq));
	asm_bind(s->a, &none);
}

void stack_emit(const struct stack_code *s)
{
	const int saved = nr_saved(s);

	for (int i = 0; i < saved; i++)
		asm_push(s->a, saved_regs[i]);
	asm_lea(s->a, ASM_RSI,
		asm_at(ASM_RSP, s->caller_at + (uint32_t)saved * (uint32_t)sizeof(uint64_t)));
	asm_store(s->a, ASM_64, stack_at(s, offsetof(struct direct_stack, sp)), ASM_RSI);
	asm_store(s->a, ASM_64, stack_at(s, offsetof(struct direct_stack, bp)), ASM_RBP);
	code_load_task_word(s->a, ASM_64, ASM_RAX, s->kernel, s->kernel->task_stack);
	asm_store(s->a, ASM_64, stack_at(s, offsetof(struct direct_stack, task)), ASM_RAX);
	emit_bytes(s);
	emit_words(s);
	emit_rest(s);
	for (int i = saved; i-- > 0;)
		asm_pop(s->a, saved_regs[i]);
}
