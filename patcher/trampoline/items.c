/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loop of a trampoline whose call is about many objects. */
#include "patcher/trampoline/code.h"

enum { WORD_SHIFT = 3, ALL_OR_NONE_SHIFT = 32 };

_Static_assert(SAVED_ALL_OR_NONE >> ALL_OR_NONE_SHIFT == 1, "it is found by shifting");

static const enum asm_reg
	cursor = ASM_RBX, /* gva of the next word of an array, of the next list_head, or the item */
	left = ASM_R12,   /* items from there on that may still be read; of words that were filled
			   * before the call, the end of the array */
	count = ASM_R13,  /* of them in this record */
	next = ASM_R14,   /* the cursor after this record */
	page = ASM_R15;   /* something of a struct page, while its order is found; a word */

static const enum asm_reg saved[] = {ASM_RBX, ASM_R12, ASM_R13, ASM_R14, ASM_R15};
enum { SAVED = sizeof(saved) / sizeof(saved[0]) };

static const struct capture_items *items_of(const struct trampoline_code *c)
{
	return &c->spec->capture.items;
}

static bool is_list(const struct trampoline_code *c)
{
	return items_of(c)->from == ITEMS_LISTED;
}

/* The words of a saved array that are filled already: few of many. */
static bool is_filled(const struct trampoline_code *c)
{
	return items_of(c)->from == ITEMS_SAVED;
}

/* One item, or none. */
static void emit_last(struct trampoline_code *c)
{
	enum asm_reg pointer = trampoline_argument(items_of(c)->pointer);
	struct asm_label is_last = {0};

	asm_move(&c->a, cursor, pointer);
	asm_load(&c->a, ASM_32, left, asm_at(pointer, (uint32_t)items_of(c)->count_offset));
	asm_alu(&c->a, ASM_32, ASM_CMP, left, 1);
	asm_jump_if(&c->a, ASM_E, &is_last);
	asm_constant32(&c->a, left, 0);
	asm_bind(&c->a, &is_last);
}

static void emit_array(struct trampoline_code *c)
{
	const struct capture_items *i = items_of(c);
	enum asm_reg pointer = trampoline_argument(i->pointer);

	if (i->from == ITEMS_COUNTED) {
		asm_load(&c->a, ASM_32, left, asm_at(pointer, (uint32_t)i->count_offset));
		if (i->count_size == 1)
			asm_alu(&c->a, ASM_32, ASM_AND, left, 0xff);
		asm_lea(&c->a, cursor, asm_at(pointer, (uint32_t)i->words_offset));
		return;
	}
	asm_move(&c->a, left, trampoline_argument(i->count));
	if (i->count_size == 4)
		asm_alu(&c->a, ASM_32, ASM_AND, left, -1);
	asm_move(&c->a, cursor, pointer);
}

/* Of an array; the guest may have written any count. A result that is too large means no items. */
static void emit_bound(struct trampoline_code *c)
{
	bool returned = items_of(c)->from == ITEMS_RETURNED;
	struct asm_label fits = {0};

	asm_alu(&c->a, ASM_64, ASM_CMP, left, CAPTURE_ITEMS_PER_CALL);
	asm_jump_if(&c->a, ASM_BE, &fits);
	asm_constant32(&c->a, left, returned ? 0 : CAPTURE_ITEMS_PER_CALL);
	if (!returned)
		ring_emit_lost(&c->ring);
	asm_bind(&c->a, &fits);
}

/* The array that the entry saved, behind the words that it skipped. */
static void emit_returned(struct trampoline_code *c)
{
	struct asm_label enough = {0}, number = {0}, known = {0};

	trampoline_find_saved_array(c, cursor, next);
	asm_move(&c->a, left, next);
	asm_shift_right(&c->a, left, ALL_OR_NONE_SHIFT);
	asm_jump_if(&c->a, ASM_E, &number);
	asm_move(&c->a, left, next);
	asm_constant32(&c->a, next, 0);
	asm_test_bits(&c->a, ASM_RAX, UINT8_MAX);
	asm_jump_if(&c->a, ASM_NE, &known);
	asm_constant32(&c->a, left, 0);
	asm_jump(&c->a, &known);
	asm_bind(&c->a, &number);
	asm_move(&c->a, left, ASM_RAX);
	asm_bind(&c->a, &known);
	asm_alu(&c->a, ASM_32, ASM_AND, left, -1);
	emit_bound(c);
	asm_compare(&c->a, left, next);
	asm_jump_if(&c->a, ASM_AE, &enough);
	asm_move(&c->a, left, next);
	asm_bind(&c->a, &enough);
	asm_sub(&c->a, left, next);
}

/* The array from its first hole on. */
static void emit_filled(struct trampoline_code *c)
{
	struct asm_label fits = {0}, again = {0}, end = {0};

	asm_move(&c->a, cursor, trampoline_argument(items_of(c)->pointer));
	asm_move(&c->a, left, cursor);
	asm_alu(&c->a, ASM_64, ASM_CMP, cursor, 0);
	asm_jump_if(&c->a, ASM_E, &end);
	asm_move(&c->a, left, trampoline_argument(items_of(c)->count));
	asm_alu(&c->a, ASM_32, ASM_AND, left, -1);
	asm_alu(&c->a, ASM_32, ASM_CMP, left, CAPTURE_ITEMS_PER_CALL);
	asm_jump_if(&c->a, ASM_BE, &fits);
	asm_constant32(&c->a, left, CAPTURE_ITEMS_PER_CALL);
	asm_bind(&c->a, &fits);
	asm_shift_left(&c->a, left, WORD_SHIFT);
	asm_add(&c->a, left, cursor);
	asm_bind(&c->a, &again);
	asm_compare(&c->a, cursor, left);
	asm_jump_if(&c->a, ASM_AE, &end);
	asm_load(&c->a, ASM_64, page, asm_at(cursor, 0));
	asm_alu(&c->a, ASM_64, ASM_CMP, page, 0);
	asm_jump_if(&c->a, ASM_E, &end);
	asm_alu(&c->a, ASM_64, ASM_ADD, cursor, 8);
	asm_jump(&c->a, &again);
	asm_bind(&c->a, &end);
}

/* How many there are must be known before the reservation, so that they are looked for twice. */
static void emit_slice_of_filled(struct trampoline_code *c)
{
	struct asm_label end = {0}, more = {0};

	asm_move(&c->a, next, cursor);
	asm_constant32(&c->a, count, 0);
	asm_bind(&c->a, &more);
	asm_compare(&c->a, next, left);
	asm_jump_if(&c->a, ASM_AE, &end);
	asm_load(&c->a, ASM_64, page, asm_at(next, 0));
	asm_alu(&c->a, ASM_64, ASM_ADD, next, 8);
	asm_alu(&c->a, ASM_64, ASM_CMP, page, 0);
	asm_jump_if(&c->a, ASM_E, &more);
	asm_alu(&c->a, ASM_32, ASM_ADD, count, 1);
	asm_alu(&c->a, ASM_32, ASM_CMP, count, CAPTURE_MAX_ITEMS);
	asm_jump_if(&c->a, ASM_B, &more);
	asm_bind(&c->a, &end);
}

static void emit_slice_of_array(struct trampoline_code *c)
{
	struct asm_label fits = {0};

	asm_move(&c->a, count, left);
	asm_alu(&c->a, ASM_32, ASM_CMP, count, CAPTURE_MAX_ITEMS);
	asm_jump_if(&c->a, ASM_BE, &fits);
	asm_constant32(&c->a, count, CAPTURE_MAX_ITEMS);
	asm_bind(&c->a, &fits);
	asm_move(&c->a, next, count);
	asm_shift_left(&c->a, next, WORD_SHIFT);
	asm_add(&c->a, next, cursor);
}

static void emit_jump_if_end(struct trampoline_code *c, enum asm_reg node, struct asm_label *end)
{
	asm_compare(&c->a, node, trampoline_argument(items_of(c)->pointer));
	asm_jump_if(&c->a, ASM_E, end);
	asm_alu(&c->a, ASM_64, ASM_CMP, node, 0);
	asm_jump_if(&c->a, ASM_E, end);
}

/* The size must be known before the reservation, so that a list is walked twice. */
static void emit_slice_of_list(struct trampoline_code *c)
{
	struct asm_label end = {0}, more = {0};

	asm_move(&c->a, next, cursor);
	asm_constant32(&c->a, count, 0);
	asm_bind(&c->a, &more);
	emit_jump_if_end(c, next, &end);
	asm_load(&c->a, ASM_64, next, asm_at(next, 0));
	asm_alu(&c->a, ASM_32, ASM_ADD, count, 1);
	asm_alu(&c->a, ASM_32, ASM_CMP, count, CAPTURE_MAX_ITEMS);
	asm_jump_if(&c->a, ASM_B, &more);
	asm_bind(&c->a, &end);
}

void trampoline_items_begin(struct trampoline_code *c)
{
	for (int i = 0; i < SAVED; i++)
		trampoline_push(c, saved[i]);
	if (is_list(c)) {
		asm_load(&c->a, ASM_64, cursor,
			 asm_at(trampoline_argument(items_of(c)->pointer), 0));
		asm_constant32(&c->a, left, CAPTURE_ITEMS_PER_CALL);
		asm_bind(&c->a, &c->chunk);
		emit_slice_of_list(c);
	} else if (is_filled(c)) {
		emit_filled(c);
		asm_bind(&c->a, &c->chunk);
		emit_slice_of_filled(c);
	} else {
		if (items_of(c)->from == ITEMS_RETURNED) {
			emit_returned(c);
		} else if (items_of(c)->from == ITEMS_LAST) {
			emit_last(c);
		} else {
			emit_array(c);
			emit_bound(c);
		}
		asm_bind(&c->a, &c->chunk);
		emit_slice_of_array(c);
	}
}

void trampoline_items_size(struct trampoline_code *c, enum asm_reg to)
{
	asm_move(&c->a, to, count);
	asm_shift_left(&c->a, to, WORD_SHIFT);
	asm_alu(&c->a, ASM_32, ASM_ADD, to, (int32_t)c->out->layout.size);
}

/* Up to `next`: if the guest has emptied words meanwhile, the last items are 0. */
static void emit_load_filled(struct trampoline_code *c, enum asm_reg item)
{
	struct asm_label again = {0}, found = {0};

	asm_constant32(&c->a, item, 0);
	asm_bind(&c->a, &again);
	asm_compare(&c->a, cursor, next);
	asm_jump_if(&c->a, ASM_AE, &found);
	asm_load(&c->a, ASM_64, item, asm_at(cursor, 0));
	asm_alu(&c->a, ASM_64, ASM_ADD, cursor, 8);
	asm_alu(&c->a, ASM_64, ASM_CMP, item, 0);
	asm_jump_if(&c->a, ASM_E, &again);
	asm_bind(&c->a, &found);
}

/* In the scratch register. */
static void emit_load_item(struct trampoline_code *c)
{
	enum asm_reg item = trampoline_scratch(c);

	if (is_list(c)) {
		asm_lea(&c->a, item, asm_at(cursor, -(uint32_t)items_of(c)->link));
		asm_load(&c->a, ASM_64, cursor, asm_at(cursor, 0));
	} else if (is_filled(c)) {
		emit_load_filled(c, item);
	} else if (items_of(c)->from == ITEMS_LAST) {
		asm_move(&c->a, item, cursor);
	} else {
		asm_load(&c->a, ASM_64, item, asm_at(cursor, 0));
		asm_alu(&c->a, ASM_64, ASM_ADD, cursor, 8);
	}
}

/* page_item() */
static void emit_page_order(struct trampoline_code *c, enum asm_reg item)
{
	const struct trampoline_kernel *k = c->spec->kernel;
	struct asm_label single = {0}, end = {0};

	asm_load(&c->a, ASM_32, page, asm_at(item, k->page_flags));
	asm_test_bits(&c->a, page, UINT32_C(1) << k->page_head_bit);
	asm_jump_if(&c->a, ASM_E, &single);
	asm_load(&c->a, ASM_32, page, asm_at(item, k->page_order));
	asm_alu(&c->a, ASM_32, ASM_AND, page, PAGE_ITEM_ORDER_MASK);
	asm_shift_left(&c->a, item, PAGE_ITEM_ORDER_BITS);
	asm_add(&c->a, item, page);
	asm_jump(&c->a, &end);
	asm_bind(&c->a, &single);
	asm_shift_left(&c->a, item, PAGE_ITEM_ORDER_BITS);
	asm_bind(&c->a, &end);
}

void trampoline_items_copy(struct trampoline_code *c)
{
	struct asm_label end = {0}, more = {0};

	trampoline_push(c, count);
	trampoline_push(c, ASM_R11);
	asm_alu(&c->a, ASM_32, ASM_CMP, count, 0);
	asm_jump_if(&c->a, ASM_E, &end);
	asm_bind(&c->a, &more);
	emit_load_item(c);
	if (items_of(c)->page_orders)
		emit_page_order(c, trampoline_scratch(c));
	asm_store(&c->a, ASM_64, ring_record_at(&c->ring, c->out->layout.items),
		  trampoline_scratch(c));
	asm_alu(&c->a, ASM_32, ASM_ADD, ASM_R11, 8);
	asm_alu(&c->a, ASM_32, ASM_ADD, count, -1);
	asm_jump_if(&c->a, ASM_NE, &more);
	asm_bind(&c->a, &end);
	trampoline_pop(c, ASM_R11);
	trampoline_pop(c, count);
}

void trampoline_items_count(struct trampoline_code *c)
{
	asm_store(&c->a, ASM_32, ring_record_at(&c->ring, offsetof(struct ring_record, items)),
		  count);
}

/* To the next record, if any word is left for it. */
static void emit_jump_if_filled(struct trampoline_code *c)
{
	struct asm_label again = {0}, end = {0};

	asm_bind(&c->a, &again);
	asm_compare(&c->a, cursor, left);
	asm_jump_if(&c->a, ASM_AE, &end);
	asm_load(&c->a, ASM_64, page, asm_at(cursor, 0));
	asm_alu(&c->a, ASM_64, ASM_CMP, page, 0);
	asm_jump_if(&c->a, ASM_NE, &c->chunk);
	asm_alu(&c->a, ASM_64, ASM_ADD, cursor, 8);
	asm_jump(&c->a, &again);
	asm_bind(&c->a, &end);
}

void trampoline_items_next(struct trampoline_code *c)
{
	struct asm_label end = {0};

	asm_move(&c->a, cursor, next);
	if (is_list(c))
		emit_jump_if_end(c, cursor, &end);
	if (is_filled(c)) {
		emit_jump_if_filled(c);
	} else {
		asm_sub(&c->a, left, count);
		asm_jump_if(&c->a, ASM_NE, &c->chunk);
	}
	if (is_list(c))
		ring_emit_lost(&c->ring);
	asm_bind(&c->a, &end);
	for (int i = SAVED; i-- > 0;)
		trampoline_pop(c, saved[i]);
}

/* One lost event for each item, or one for a call without items. */
void trampoline_items_lost(struct trampoline_code *c)
{
	enum asm_reg lost = trampoline_scratch(c);
	struct asm_label some = {0};

	asm_move(&c->a, lost, count);
	asm_alu(&c->a, ASM_32, ASM_CMP, lost, 0);
	asm_jump_if(&c->a, ASM_NE, &some);
	asm_constant32(&c->a, lost, 1);
	asm_bind(&c->a, &some);
	asm_add_to_mem(&c->a, ring_header_at(&c->ring, offsetof(struct ring_header, lost)), lost);
}
