/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that are counted where they happen (patcher/ring/call-counts.h). */
#include <errno.h>
#include "patcher/trampoline/code.h"

enum {
	RETURN_ADDRESS = 8, /* of an entry's site, from RSP: above the flags */
	PUSHED = 8,         /* RDX */
	WAY = sizeof(struct call_open),
	BUCKET_SHIFT = 5, /* log2 of a hash bucket's bytes */
	CHECK_SHIFT = 16, /* leaves what must be zero of a check */
};

_Static_assert(1 << BUCKET_SHIFT == CALL_OPEN_WAYS * WAY, "a bucket");
_Static_assert(64 - CHECK_SHIFT == CALL_OPEN_SHIFT + 6, "an offset is above what is checked");

int count_check(const struct count_spec *count, enum probe_point point, struct error *err)
{
	if ((count->action == COUNT_STOP) != (point == POINT_RETURN))
		return error_set(err, EINVAL, "calls begin at entries, and end at returns");
	return 0;
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

/* R11 = where the search begins; RAX = the site's end. */
static void emit_hash(const struct count_code *c)
{
	const struct call_counts_layout *l = &c->spec->layout;

	asm_load(c->a, ASM_32, ASM_RAX, asm_at(ASM_RSP, RETURN_ADDRESS));
	asm_move(c->a, ASM_R11, ASM_RAX);
	asm_multiply_reg(c->a, ASM_R11, CALL_COUNTS_MIX);
	asm_multiply_long(c->a, ASM_R11, (int32_t)l->slots);
	asm_shift_right(c->a, ASM_R11, 32);
	asm_multiply_reg(c->a, ASM_R11, l->size);
}

static void emit_find(struct count_code *c)
{
	if (c->ip) {
		asm_constant32(c->a, ASM_R11, c->spec->offset);
		return;
	}
	emit_hash(c);
	asm_bind(c->a, &c->again);
	asm_compare_load(c->a, ASM_RAX, COUNT_AT(c, ip));
	asm_jump_if(c->a, ASM_NE, &c->other);
}

/* Another function is there; or none, which ends the search. */
static void emit_find_slow(struct count_code *c)
{
	if (c->ip)
		return;
	asm_bind(c->a, &c->other);
	asm_compare_mem(c->a, COUNT_AT(c, ip), 0);
	asm_jump_if(c->a, ASM_E, &c->done);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R11, (int32_t)c->spec->layout.size);
	asm_jump(c->a, &c->again);
}

/* RAX = the counter of time; RDX is free then. */
static void emit_clock(const struct count_code *c)
{
	static const uint8_t rdtsc[] = {0x0f, 0x31};

	asm_push(c->a, ASM_RDX);
	asm_bytes(c->a, rdtsc, sizeof(rdtsc));
	asm_shift_left(c->a, ASM_RDX, 32);
	asm_add(c->a, ASM_RAX, ASM_RDX);
}

static void emit_frame(const struct count_code *c)
{
	asm_lea(c->a, ASM_RDX, asm_at(ASM_RSP, c->caller_at + PUSHED));
}

/* R10 = the offset of the first place; RDX = what the call adds to its check. */
static void emit_key(const struct count_code *c)
{
	emit_frame(c);
	asm_move(c->a, ASM_R10, ASM_RDX);
	asm_multiply_reg(c->a, ASM_R10, CALL_OPENS_MIX);
	asm_shift_right(c->a, ASM_R10, (uint8_t)(32 - c->spec->layout.opens_bits));
	asm_shift_left(c->a, ASM_R10, BUCKET_SHIFT);
	asm_add_load(c->a, ASM_RDX, asm_at(ASM_RDX, 0));
}

static void emit_start(struct count_code *c)
{
	emit_clock(c);
	emit_key(c);
	asm_compare_mem_constant(c->a, ASM_64, OPEN_AT(c, check), 0);
	asm_jump_if(c->a, ASM_NE, &c->taken);
	asm_bind(c->a, &c->take);
	asm_store(c->a, ASM_64, OPEN_AT(c, tsc), ASM_RAX);
	asm_shift_left(c->a, ASM_R11, CALL_OPEN_SHIFT);
	asm_add(c->a, ASM_RDX, ASM_RAX);
	asm_add(c->a, ASM_RDX, ASM_R11);
	asm_store(c->a, ASM_64, OPEN_AT(c, check), ASM_RDX);
	asm_pop(c->a, ASM_RDX);
}

/* By a call with the same key, which has left by a jump: its place. By another: the second one. */
static void emit_start_slow(struct count_code *c)
{
	asm_bind(c->a, &c->taken);
	asm_push(c->a, ASM_R11);
	asm_push(c->a, ASM_RAX);
	asm_load(c->a, ASM_64, ASM_RAX, OPEN_AT(c, tsc));
	asm_load(c->a, ASM_64, ASM_R11, OPEN_AT(c, check));
	asm_sub(c->a, ASM_R11, ASM_RAX);
	asm_sub(c->a, ASM_R11, ASM_RDX);
	asm_pop(c->a, ASM_RAX);
	asm_shift_left(c->a, ASM_R11, CHECK_SHIFT);
	asm_pop(c->a, ASM_R11);
	asm_jump_if(c->a, ASM_E, &c->take);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R10, WAY);
	asm_jump(c->a, &c->take);
}

/* RCX = when the call began, RDX = 0, R11 = the offset of its function's counts. */
static void emit_find_open(struct count_code *c)
{
	emit_key(c);
	asm_bind(c->a, &c->again);
	asm_load(c->a, ASM_64, ASM_RCX, OPEN_AT(c, tsc));
	asm_load(c->a, ASM_64, ASM_R11, OPEN_AT(c, check));
	asm_sub(c->a, ASM_R11, ASM_RCX);
	asm_sub(c->a, ASM_R11, ASM_RDX);
	asm_move(c->a, ASM_RDX, ASM_R11);
	asm_shift_left(c->a, ASM_RDX, CHECK_SHIFT);
	asm_jump_if(c->a, ASM_NE, &c->other);
	asm_shift_right(c->a, ASM_R11, CALL_OPEN_SHIFT);
	asm_store(c->a, ASM_64, OPEN_AT(c, check), ASM_RDX);
}

static void emit_find_open_slow(struct count_code *c)
{
	asm_bind(c->a, &c->other);
	asm_test_bits(c->a, ASM_R10, WAY);
	asm_jump_if(c->a, ASM_NE, &c->unknown);
	asm_alu(c->a, ASM_64, ASM_ADD, ASM_R10, WAY);
	emit_frame(c);
	asm_add_load(c->a, ASM_RDX, asm_at(ASM_RDX, 0));
	asm_jump(c->a, &c->again);
}

/* No call takes less than a tick, whatever two CPUs' counters say. */
static void emit_stop(struct count_code *c)
{
	static const uint8_t bsr_rax_rcx[] = {0x48, 0x0f, 0xbd, 0xc8};

	asm_move(c->a, ASM_RSI, ASM_RAX);
	emit_clock(c);
	emit_find_open(c);
	asm_sub(c->a, ASM_RAX, ASM_RCX);
	asm_jump_if(c->a, ASM_BE, &c->backwards);
	asm_bind(c->a, &c->forwards);
	asm_multiply(c->a, ASM_R10, c->cpu, (int32_t)c->stride);
	asm_increment(c->a, COUNT_AT(c, timed));
	asm_add_to_mem(c->a, COUNT_AT(c, ticks), ASM_RAX);
	asm_compare_load(c->a, ASM_RAX, COUNT_AT(c, longest));
	asm_jump_if(c->a, ASM_A, &c->longer);
	asm_bind(c->a, &c->known);
	if (c->spec->layout.size > sizeof(struct call_count)) {
		asm_bytes(c->a, bsr_rax_rcx, sizeof(bsr_rax_rcx));
		asm_shift_left(c->a, ASM_RCX, 3);
		asm_add(c->a, ASM_R11, ASM_RCX);
		asm_increment(c->a, count_at(c, sizeof(struct call_count)));
	}
	asm_bind(c->a, &c->unknown);
	asm_pop(c->a, ASM_RDX);
	asm_move(c->a, ASM_RAX, ASM_RSI);
}

static void emit_stop_slow(struct count_code *c)
{
	emit_find_open_slow(c);
	asm_bind(c->a, &c->backwards);
	asm_constant32(c->a, ASM_RAX, 1);
	asm_jump(c->a, &c->forwards);
	asm_bind(c->a, &c->longer);
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
	if (c->spec->action == COUNT_START)
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
	if (c->spec->action == COUNT_START)
		emit_start_slow(c);
}
