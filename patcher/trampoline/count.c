/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that are counted where they happen (patcher/ring/call-counts.h). */
#include <errno.h>
#include "patcher/trampoline/code.h"

enum {
	PUSHED = 8, /* RDX */
	WAY = sizeof(struct call_open),
	CHECK_SHIFT = 19, /* leaves what must be zero of a check */
	OFFSET_BITS = 64 - CALL_OPEN_SHIFT,
};

_Static_assert(64 - CHECK_SHIFT == CALL_OPEN_SHIFT + 3, "an offset is above what is checked");

int count_check(const struct count_spec *count, enum probe_point point, struct error *err)
{
	if ((count->action == COUNT_STOP) != (point == POINT_RETURN))
		return error_set(err, EINVAL, "calls begin at entries, and end at returns");
	if (count->action == COUNT_TAIL && count->layout.ways != CALL_TAIL_WAYS)
		return error_set(err, EINVAL,
				 "calls have no places beside those that jump to them");
	return 0;
}

static bool has_tails(const struct count_code *c)
{
	return c->spec->layout.ways == CALL_TAIL_WAYS;
}

/* Bytes of a hash's places: a power of two. */
static uint32_t bucket_bytes(const struct count_code *c)
{
	return c->spec->layout.ways * WAY;
}

/* R10 is the CPU's distance, R11 the offset of the function's counts. */
static struct asm_mem count_at(const struct count_code *c, size_t field)
{
	const uint64_t gva = c->data + c->spec->layout.counts_at + field;

	return (struct asm_mem){ASM_R10, ASM_R11, (int32_t)gva, false};
}

/* R10 is the place's offset. */
static struct asm_mem open_at(const struct count_code *c, size_t field)
{
	return asm_at(ASM_R10, (uint32_t)(c->data + field));
}

#define COUNT_AT(c, field) count_at(c, offsetof(struct call_count, field))
#define OPEN_AT(c, field) open_at(c, offsetof(struct call_open, field))

/* R11 = where the search begins; RAX = what the function is found by. */
static void emit_hash(const struct count_code *c)
{
	const struct call_counts_layout *l = &c->spec->layout;

	asm_multiply(c->a, ASM_RAX, asm_at(ASM_RSP, c->site_at), (int32_t)CALL_COUNTS_MIX);
	asm_multiply_long(c->a, ASM_R11, ASM_RAX, (int32_t)l->slots);
	asm_shift_right(c->a, ASM_R11, 32);
	asm_multiply_reg(c->a, ASM_R11, ASM_R11, l->size);
}

static void emit_find(struct count_code *c)
{
	if (c->ip) {
		asm_constant32(c->a, ASM_R11, c->spec->offset);
		return;
	}
	emit_hash(c);
	asm_bind(c->a, &c->again);
	asm_compare_load(c->a, ASM_RAX, COUNT_AT(c, hash));
	asm_jump_if(c->a, ASM_NE, &c->other);
}

/* Another function is there; or none, which ends the search. */
static void emit_find_slow(struct count_code *c)
{
	if (c->ip)
		return;
	asm_bind(c->a, &c->other);
	asm_compare_mem(c->a, COUNT_AT(c, hash), 0);
	asm_jump_if(c->a, ASM_E, &c->done);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R11, (int32_t)c->spec->layout.size);
	asm_jump(c->a, &c->again);
}

/* Where the call's return address is, from RSP, while RDX is pushed. */
static uint32_t frame_at(const struct count_code *c)
{
	return c->caller_at + PUSHED;
}

/* R10 = the offset of the call's first place, before its bits are chosen. At either side of the
 * push there is mostly one where RSP is what is hashed. */
static void emit_mix(const struct count_code *c, uint32_t frame)
{
	if (frame != CALL_OPEN_BIAS)
		asm_lea(c->a, ASM_R10, asm_at(ASM_RSP, frame - CALL_OPEN_BIAS));
	asm_multiply_reg(c->a, ASM_R10, frame == CALL_OPEN_BIAS ? ASM_RSP : ASM_R10,
			 CALL_OPENS_MIX);
}

/*
 * RAX = the counter of time. Changes RDX. What a call needs until it is open is no part of its
 * time; between the two clocks of a call there are as many instructions of the tracer's as with
 * records of the graph tracer (emit_record()), so that both have the same times.
 */
static void emit_clock(const struct count_code *c)
{
	static const uint8_t rdtsc[] = {0x0f, 0x31};

	asm_bytes(c->a, rdtsc, sizeof(rdtsc));
	asm_shift_left(c->a, ASM_RDX, 32);
	asm_add(c->a, ASM_RAX, ASM_RDX);
}

/* R10 = the offset of the call's first place. Pushes RDX. */
static void emit_place(const struct count_code *c)
{
	const bool first = c->caller_at == CALL_OPEN_BIAS;

	if (first)
		emit_mix(c, c->caller_at);
	asm_push(c->a, ASM_RDX);
	if (!first)
		emit_mix(c, frame_at(c));
	asm_shift_right(c->a, ASM_R10, (uint8_t)(32 - c->spec->layout.opens_bits));
	asm_shift_left(c->a, ASM_R10, (uint8_t)__builtin_ctz(bucket_bytes(c)));
}

/* RDX = frame + `more` + return address. */
static void emit_key(const struct count_code *c, enum asm_reg more)
{
	asm_lea(c->a, ASM_RDX, (struct asm_mem){ASM_RSP, more, (int32_t)frame_at(c), false});
	asm_add_load(c->a, ASM_RDX, asm_at(ASM_RSP, frame_at(c)));
}

/* R11 is the offset of its function's counts, shifted. */
static void emit_open(const struct count_code *c)
{
	asm_store(c->a, ASM_64, OPEN_AT(c, tsc), ASM_RAX);
	emit_key(c, ASM_R11);
	asm_add(c->a, ASM_RDX, ASM_RAX);
	asm_store(c->a, ASM_64, OPEN_AT(c, check), ASM_RDX);
	asm_pop(c->a, ASM_RDX);
}

/* R11 = what the place's check is more than its stamp, the frame, and the return address, while R11
 * is pushed, too: the shifted offset, if it is of a call in this frame. Changes RDX. */
static void emit_difference(const struct count_code *c)
{
	asm_load(c->a, ASM_64, ASM_R11, OPEN_AT(c, check));
	asm_load(c->a, ASM_64, ASM_RDX, OPEN_AT(c, tsc));
	asm_sub(c->a, ASM_R11, ASM_RDX);
	asm_lea(c->a, ASM_RDX, asm_at(ASM_RSP, frame_at(c) + PUSHED));
	asm_add_load(c->a, ASM_RDX, asm_at(ASM_RDX, 0));
	asm_sub(c->a, ASM_R11, ASM_RDX);
}

static void emit_start(struct count_code *c)
{
	emit_place(c);
	asm_compare_mem_constant(c->a, ASM_64, OPEN_AT(c, check), 0);
	asm_jump_if(c->a, ASM_NE, &c->taken);
	asm_bind(c->a, &c->take);
	asm_shift_left(c->a, ASM_R11, CALL_OPEN_SHIFT);
	emit_clock(c);
	emit_open(c);
}

/* By a call with the same key, which has left by a jump: its place. By another: the second one. */
static void emit_start_slow(struct count_code *c)
{
	asm_bind(c->a, &c->taken);
	asm_push(c->a, ASM_R11);
	emit_difference(c);
	asm_shift_left(c->a, ASM_R11, CHECK_SHIFT);
	asm_pop(c->a, ASM_R11);
	asm_jump_if(c->a, ASM_E, &c->take);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R10, WAY);
	asm_jump(c->a, &c->take);
}

/* RCX = when the call began, R11 = the offset of its function's counts: what is left of the check.
 */
static void emit_find_open(const struct count_code *c, struct asm_label *other)
{
	asm_load(c->a, ASM_64, ASM_RCX, OPEN_AT(c, tsc));
	emit_key(c, ASM_RCX);
	asm_load(c->a, ASM_64, ASM_R11, OPEN_AT(c, check));
	asm_sub(c->a, ASM_R11, ASM_RDX);
	asm_rotate_left(c->a, ASM_R11, OFFSET_BITS);
	asm_alu(c->a, ASM_64, ASM_CMP, ASM_R11, CALL_COUNTS_MAX);
	asm_jump_if(c->a, ASM_AE, other);
	asm_store_constant(c->a, ASM_64, OPEN_AT(c, check), 0);
}

static void emit_find_open_slow(struct count_code *c)
{
	asm_bind(c->a, &c->other);
	asm_test_bits(c->a, ASM_R10, WAY);
	asm_jump_if(c->a, ASM_NE, &c->unknown);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R10, WAY);
	asm_jump(c->a, &c->again);
}

/* RAX = the call's ticks, R11 = the offset of its function's counts. */
static void emit_bucket(struct count_code *c)
{
	static const uint8_t bsr_rax_rcx[] = {0x48, 0x0f, 0xbd, 0xc8};

	asm_alu(c->a, ASM_64, ASM_OR, ASM_RAX, 1);
	asm_bytes(c->a, bsr_rax_rcx, sizeof(bsr_rax_rcx));
	asm_shift_left(c->a, ASM_RCX, 3);
	asm_add(c->a, ASM_R11, ASM_RCX);
	asm_increment(c->a, count_at(c, sizeof(struct call_count)));
}

/* RAX is the counter of time; it began at RCX. */
static void emit_time(struct count_code *c)
{
	asm_sub(c->a, ASM_RAX, ASM_RCX);
	asm_multiply(c->a, ASM_R10, c->cpu, (int32_t)c->stride);
	asm_increment(c->a, COUNT_AT(c, timed));
	asm_bind(c->a, &c->compare);
	asm_compare_load(c->a, ASM_RAX, COUNT_AT(c, longest));
	asm_jump_if(c->a, ASM_A, &c->longer);
	asm_bind(c->a, &c->known);
	asm_add_to_mem(c->a, COUNT_AT(c, ticks), ASM_RAX);
	if (c->spec->layout.size > sizeof(struct call_count))
		emit_bucket(c);
}

/* --- chains of tail calls -------------------------------------------------------------------- */

/* R10 = the hash's next place; go on at `again` while there is one, else R10 is behind the last. */
static void emit_each_place(const struct count_code *c, struct asm_label *again)
{
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R10, WAY);
	asm_test_bits(c->a, ASM_R10, bucket_bytes(c) - 1);
	asm_jump_if(c->a, ASM_NE, again);
}

static void emit_unless_open(const struct count_code *c, struct asm_label *none)
{
	asm_compare_mem_constant(c->a, ASM_64, OPEN_AT(c, check), 0);
	asm_jump_if(c->a, ASM_E, none);
}

/*
 * Free the places of calls in the frame of this one that have ended unseen: those of its own
 * function, and all, unless the function is one that others jump to. R11 is its shifted offset.
 */
static void emit_end_unseen(const struct count_code *c)
{
	struct asm_label again = {0}, next = {0};

	asm_push(c->a, ASM_R11);
	asm_bind(c->a, &again);
	emit_unless_open(c, &next);
	emit_difference(c);
	if (c->spec->action == COUNT_TAIL)
		asm_compare_load(c->a, ASM_R11, asm_at(ASM_RSP, 0));
	else
		asm_shift_left(c->a, ASM_R11, CHECK_SHIFT);
	asm_jump_if(c->a, ASM_NE, &next);
	asm_store_constant(c->a, ASM_64, OPEN_AT(c, check), 0);
	asm_bind(c->a, &next);
	emit_each_place(c, &again);
	asm_alu(c->a, ASM_64, ASM_SUB, ASM_R10, (int32_t)bucket_bytes(c));
	asm_pop(c->a, ASM_R11);
}

/* Where all places are taken, the last call's. */
static void emit_start_in_chain(struct count_code *c)
{
	struct asm_label again = {0}, take = {0};

	emit_place(c);
	asm_shift_left(c->a, ASM_R11, CALL_OPEN_SHIFT);
	emit_end_unseen(c);
	asm_bind(c->a, &again);
	emit_unless_open(c, &take);
	emit_each_place(c, &again);
	asm_alu(c->a, ASM_64, ASM_SUB, ASM_R10, WAY);
	asm_bind(c->a, &take);
	emit_clock(c);
	emit_open(c);
}

/* All calls in this frame end here. */
static void emit_end_chain(struct count_code *c)
{
	struct asm_label again = {0}, next = {0};

	asm_bind(c->a, &again);
	emit_unless_open(c, &next);
	emit_find_open(c, &next);
	asm_push(c->a, ASM_R10);
	asm_push(c->a, ASM_RAX);
	emit_time(c);
	asm_pop(c->a, ASM_RAX);
	asm_pop(c->a, ASM_R10);
	asm_bind(c->a, &next);
	emit_each_place(c, &again);
}

/* --- begin and end --------------------------------------------------------------------------- */

static void emit_stop(struct count_code *c)
{
	asm_move(c->a, ASM_RSI, ASM_RAX);
	emit_place(c);
	emit_clock(c);
	if (has_tails(c)) {
		emit_end_chain(c);
	} else {
		asm_bind(c->a, &c->again);
		emit_find_open(c, &c->other);
		emit_time(c);
		asm_bind(c->a, &c->unknown);
	}
	asm_pop(c->a, ASM_RDX);
	asm_move(c->a, ASM_RAX, ASM_RSI);
}

/* Two CPUs' counters may say that a call ended before it began: it took a tick. */
static void emit_stop_slow(struct count_code *c)
{
	struct asm_label forwards = {0};

	if (!has_tails(c))
		emit_find_open_slow(c);
	asm_bind(c->a, &c->longer);
	asm_alu(c->a, ASM_64, ASM_CMP, ASM_RAX, 0);
	asm_jump_if(c->a, ASM_G, &forwards);
	asm_constant32(c->a, ASM_RAX, 1);
	asm_jump(c->a, &c->compare);
	asm_bind(c->a, &forwards);
	asm_store(c->a, ASM_64, COUNT_AT(c, longest), ASM_RAX);
	asm_jump(c->a, &c->known);
}

void count_emit(struct count_code *c)
{
	if (c->spec->action == COUNT_STOP) {
		emit_stop(c);
		return;
	}
	emit_find(c);
	asm_increment(c->a, COUNT_AT(c, hits));
	if (c->spec->action != COUNT_HIT && has_tails(c))
		emit_start_in_chain(c);
	else if (c->spec->action != COUNT_HIT)
		emit_start(c);
	asm_bind(c->a, &c->done);
}

void count_emit_slow(struct count_code *c)
{
	if (c->spec->action == COUNT_STOP) {
		emit_stop_slow(c);
		return;
	}
	emit_find_slow(c);
	if (c->spec->action == COUNT_START && !has_tails(c))
		emit_start_slow(c);
}
