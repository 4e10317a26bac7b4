/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts that save an array at a call's entry and find it at its return. */
#include "patcher/trampoline/code.h"

enum { SLOT_SHIFT = 5, KEY_SHIFT = 3 };

/* 2^32 divided by the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4). */
#define HASH_FACTOR UINT32_C(0x9e3779b1)

static const enum asm_reg key = ASM_R13, slot = ASM_R14, /* its distance from the first one */
	tries = ASM_R11;

_Static_assert(1 << SLOT_SHIFT == sizeof(struct ring_saved_array), "slots are found by shifting");

static struct asm_mem slot_at(const struct trampoline_code *c, size_t offset)
{
	return asm_at(slot, (uint32_t)(c->spec->saved_arrays + offset));
}

/* Keys differ in their high bits: stacks lie far apart, and calls are at similar depths. */
static void emit_first_slot(struct trampoline_code *c)
{
	asm_lea(&c->a, key, asm_at(ASM_RSP, c->pushed));
	asm_move(&c->a, slot, key);
	asm_shift_right(&c->a, slot, KEY_SHIFT);
	asm_multiply_reg(&c->a, slot, slot, HASH_FACTOR);
	asm_shift_right(&c->a, slot, 32 - RING_SAVED_HASH_BITS);
	asm_shift_left(&c->a, slot, SLOT_SHIFT);
	asm_constant32(&c->a, tries, RING_SAVED_TRIES);
}

static void emit_next_slot(struct trampoline_code *c, struct asm_label *again)
{
	asm_alu(&c->a, ASM_64, ASM_ADD, slot, 1 << SLOT_SHIFT);
	asm_alu(&c->a, ASM_32, ASM_ADD, tries, -1);
	asm_jump_if(&c->a, ASM_NE, again);
}

/* words = the first word that is 0, skip = how many lie before it. */
static void emit_skip_filled(struct trampoline_code *c, enum asm_reg words, enum asm_reg skip)
{
	enum asm_reg count = trampoline_argument(c->spec->capture.items.count), word = ASM_R11;
	struct asm_label again = {0}, end = {0};

	asm_move(&c->a, ASM_RAX, count);
	asm_alu(&c->a, ASM_32, ASM_AND, ASM_RAX, -1);
	asm_bind(&c->a, &again);
	asm_compare(&c->a, skip, ASM_RAX);
	asm_jump_if(&c->a, ASM_AE, &end);
	asm_alu(&c->a, ASM_32, ASM_CMP, skip, CAPTURE_ITEMS_PER_CALL);
	asm_jump_if(&c->a, ASM_AE, &end);
	asm_load(&c->a, ASM_64, word, asm_at(words, 0));
	asm_alu(&c->a, ASM_64, ASM_CMP, word, 0);
	asm_jump_if(&c->a, ASM_E, &end);
	asm_alu(&c->a, ASM_64, ASM_ADD, words, 8);
	asm_alu(&c->a, ASM_32, ASM_ADD, skip, 1);
	asm_jump(&c->a, &again);
	asm_bind(&c->a, &end);
}

static void emit_all_or_none(struct trampoline_code *c, enum asm_reg to)
{
	asm_move(&c->a, to, trampoline_argument(c->spec->capture.items.count));
	asm_alu(&c->a, ASM_32, ASM_AND, to, -1);
	asm_constant64(&c->a, ASM_RAX, SAVED_ALL_OR_NONE);
	asm_add(&c->a, to, ASM_RAX);
}

/* Other CPUs may claim the same slot. A slot with the own key is free: a call without a return left
 * it. */
static void emit_claim(struct trampoline_code *c, struct asm_label *none)
{
	struct asm_label again = {0}, mine = {0};

	emit_first_slot(c);
	asm_bind(&c->a, &again);
	asm_constant32(&c->a, ASM_RAX, 0);
	asm_compare_exchange(&c->a, slot_at(c, offsetof(struct ring_saved_array, key)), key);
	asm_jump_if(&c->a, ASM_E, &mine);
	asm_compare(&c->a, ASM_RAX, key);
	asm_jump_if(&c->a, ASM_E, &mine);
	emit_next_slot(c, &again);
	asm_jump(&c->a, none);
	asm_bind(&c->a, &mine);
}

void trampoline_save_array(struct trampoline_code *c)
{
	static const enum asm_reg saved[] = {ASM_RBX, ASM_R12, ASM_R13, ASM_R14};
	enum { SAVED = sizeof(saved) / sizeof(saved[0]) };
	const enum asm_reg words = ASM_RBX, skip = ASM_R12;
	struct asm_label none = {0};

	for (int i = 0; i < SAVED; i++)
		trampoline_push(c, saved[i]);
	asm_move(&c->a, words, trampoline_argument(c->spec->capture.items.pointer));
	asm_alu(&c->a, ASM_64, ASM_CMP, words, 0);
	asm_jump_if(&c->a, ASM_E, &none);
	asm_constant32(&c->a, skip, 0);
	if (c->spec->capture.items.all_or_none)
		emit_all_or_none(c, skip);
	else if (c->spec->capture.items.skip_filled)
		emit_skip_filled(c, words, skip);
	emit_claim(c, &none);
	asm_store(&c->a, ASM_64, slot_at(c, offsetof(struct ring_saved_array, words)), words);
	asm_store(&c->a, ASM_64, slot_at(c, offsetof(struct ring_saved_array, skip)), skip);
	asm_bind(&c->a, &none);
	for (int i = SAVED; i-- > 0;)
		trampoline_pop(c, saved[i]);
}

void trampoline_find_saved_array(struct trampoline_code *c, enum asm_reg words, enum asm_reg skip)
{
	struct asm_label again = {0}, found = {0}, end = {0};
	enum asm_reg zero = trampoline_scratch(c);
	struct asm_mem its_key;

	c->saved = ASM_R15;
	emit_first_slot(c);
	its_key = slot_at(c, offsetof(struct ring_saved_array, key));
	asm_bind(&c->a, &again);
	asm_compare_load(&c->a, key, its_key);
	asm_jump_if(&c->a, ASM_E, &found);
	emit_next_slot(c, &again);
	asm_constant32(&c->a, skip, CAPTURE_ITEMS_PER_CALL);
	asm_constant32(&c->a, c->saved, 0);
	asm_jump(&c->a, &end);
	asm_bind(&c->a, &found);
	asm_load(&c->a, ASM_64, words, slot_at(c, offsetof(struct ring_saved_array, words)));
	asm_load(&c->a, ASM_64, c->saved, slot_at(c, offsetof(struct ring_saved_array, skip)));
	asm_constant32(&c->a, zero, 0);
	asm_store(&c->a, ASM_64, its_key, zero);
	asm_move(&c->a, skip, c->saved);
	asm_alu(&c->a, ASM_64, ASM_ADD, c->saved, 1);
	asm_bind(&c->a, &end);
}
