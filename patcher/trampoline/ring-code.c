/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's side of the rings' protocol (patcher/ring/layout.h), as code. */
#include "patcher/trampoline/code.h"

#include <errno.h>
#include "introspect/guest/guest.h"

enum { FLAG_INTERRUPTS = 1 << 9 };

/* Addresses are disp32(%r10,%r11), sign-extended; the registers hold less than 2 GiB together. */
int ring_code_check(const struct trampoline_rings *r, struct error *err)
{
	uint64_t total;

	if (r->data_bytes < RING_MIN_DATA || (r->data_bytes & (r->data_bytes - 1)) || !r->cpus)
		return error_set(err, EINVAL, "rings of %u bytes for %u CPUs are not possible",
				 r->data_bytes, r->cpus);
	if (r->data_bytes > INT32_MAX / 2)
		return error_set(err, ERANGE, "rings of %u bytes are too large", r->data_bytes);
	total = (uint64_t)r->cpus * ring_stride(r->data_bytes);
	if (total > INT32_MAX || (int64_t)r->gva != (int32_t)r->gva ||
	    (r->gva >> 63) != ((r->gva + total - 1) >> 63))
		return error_set_at(err, ERANGE, r->gva,
				    "rings of %u CPUs do not fit where code can address them",
				    r->cpus);
	return 0;
}

struct asm_mem ring_header_at(const struct ring_code *r, size_t offset)
{
	return asm_at(ASM_R10, (uint32_t)(r->rings->gva + offset));
}

struct asm_mem ring_record_at(const struct ring_code *r, size_t offset)
{
	uint64_t data = r->rings->gva + RING_HEADER_BYTES;

	return (struct asm_mem){ASM_R10, ASM_R11, (int32_t)(data + offset), false};
}

void code_enter(struct assembler *a, bool unprivileged)
{
	static const uint8_t pushf_cli[] = {0x9c, 0xfa}, pushf_nop[] = {0x9c, 0x90};

	asm_bytes(a, unprivileged ? pushf_nop : pushf_cli, sizeof(pushf_cli));
}

/*
 * Not by POPF: the CPU would take an interrupt that is pending at the instruction behind it, which
 * the guest's unwinder does not know. After STI it takes it behind the jump, in the guest's own
 * code (Intel SDM volume 2, STI). RET is followed by an INT3, against speculation past it.
 */
void code_leave(struct assembler *a, uint64_t next, bool unprivileged)
{
	static const uint8_t sti = 0xfb, nop = 0x90, ret_int3[] = {0xc3, 0xcc};
	struct asm_label stay_off = {0};

	asm_pop(a, ASM_R11);
	asm_test_bits(a, ASM_R11, FLAG_INTERRUPTS);
	asm_jump_if(a, ASM_E, &stay_off);
	asm_bytes(a, unprivileged ? &nop : &sti, 1);
	asm_bind(a, &stay_off);
	if (next)
		asm_jump_to(a, next);
	else
		asm_bytes(a, ret_int3, sizeof(ret_int3));
}

void ring_emit_distance(const struct ring_code *r, const struct trampoline_kernel *kernel)
{
	struct asm_mem cpu = {ASM_NO_REG, ASM_NO_REG, kernel->cpu_number, true};

	asm_multiply(r->a, ASM_R10, cpu, (int32_t)ring_stride(r->rings->data_bytes));
}

static void emit_compare_limit(const struct ring_code *r)
{
	asm_load(r->a, ASM_64, ASM_R11, ring_header_at(r, offsetof(struct ring_header, reserve)));
	asm_compare_load(r->a, ASM_R11, ring_header_at(r, offsetof(struct ring_header, limit)));
}

void ring_emit_check(struct ring_code *r)
{
	asm_bind(r->a, &r->retry);
	r->out->retry = (uint16_t)r->a->size;
	emit_compare_limit(r);
	asm_jump_if(r->a, ASM_AE, &r->full);
}

/*
 * No LOCK: only this CPU writes `reserve`, and what can come between, an NMI, comes between whole
 * instructions. It may reserve between the check and the XADD, which ring_slack() allows for.
 */
void ring_emit_reserve(const struct ring_code *r)
{
	asm_xadd(r->a, ring_header_at(r, offsetof(struct ring_header, reserve)), ASM_R11);
	asm_alu(r->a, ASM_32, ASM_AND, ASM_R11, (int32_t)(r->rings->data_bytes - 1));
}

/* RDTSC overwrites RAX and RDX: a return's result, and what may be an entry's third argument. */
static void begin_clock(const struct ring_code *r)
{
	static const uint8_t rdtsc[] = {0x0f, 0x31};

	if (r->keep_rax)
		asm_move(r->a, ASM_RSI, ASM_RAX);
	if (r->keep_rdx)
		asm_push(r->a, ASM_RDX);
	asm_bytes(r->a, rdtsc, sizeof(rdtsc));
}

static void end_clock(const struct ring_code *r)
{
	if (r->keep_rdx)
		asm_pop(r->a, ASM_RDX);
	if (r->keep_rax)
		asm_move(r->a, ASM_RAX, ASM_RSI);
}

void ring_emit_clock(const struct ring_code *r)
{
	size_t tsc = offsetof(struct ring_record, tsc);

	begin_clock(r);
	asm_store(r->a, ASM_32, ring_record_at(r, tsc), ASM_RAX);
	asm_store(r->a, ASM_32, ring_record_at(r, tsc + 4), ASM_RDX);
	end_clock(r);
}

/* Publishing is a plain store: x86 keeps stores in order. */
void ring_emit_commit(const struct ring_code *r, uint32_t id)
{
	struct asm_mem to = ring_record_at(r, offsetof(struct ring_record, commit));

	asm_store_constant(r->a, ASM_32, to, ring_commit(id));
}

void ring_emit_skip(struct ring_code *r)
{
	asm_bind(r->a, &r->skip);
	r->out->skip = (uint16_t)r->a->size;
}

void ring_emit_lost(const struct ring_code *r)
{
	asm_increment(r->a, ring_header_at(r, offsetof(struct ring_header, lost)));
}

/* R11 = how long writers may still wait for room, in ticks of this CPU's TSC. */
static void emit_patience(const struct ring_code *r)
{
	struct asm_mem until = {ASM_NO_REG, ASM_NO_REG, (int32_t)r->rings->deadline, false};
	struct asm_label known = {0};

	begin_clock(r);
	asm_shift_left(r->a, ASM_RDX, 32);
	asm_add(r->a, ASM_RAX, ASM_RDX);
	asm_load(r->a, ASM_64, ASM_R11, until);
	asm_alu(r->a, ASM_64, ASM_CMP, ASM_R11, 0);
	asm_jump_if(r->a, ASM_NE, &known);
	asm_constant32(r->a, ASM_R11, r->rings->patience);
	asm_add(r->a, ASM_R11, ASM_RAX);
	asm_store(r->a, ASM_64, until, ASM_R11);
	asm_bind(r->a, &known);
	asm_sub(r->a, ASM_R11, ASM_RAX);
	end_clock(r);
}

/*
 * Until there is room, or the deadline has passed that the first waiting writer of any ring set for all.
 * A deadline that has passed stays so until the host clears it. One that is too far away was meant
 * for another clock, and has passed, too. R11 is loaded again by the retry.
 */
static void emit_spin(struct ring_code *r)
{
	static const uint8_t pause[] = {0xf3, 0x90};
	struct asm_label again = {0};

	r->out->trap = (uint16_t)r->a->size;
	asm_bind(r->a, &again);
	asm_bytes(r->a, pause, sizeof(pause));
	emit_compare_limit(r);
	asm_jump_if(r->a, ASM_B, &r->retry);
	emit_patience(r);
	asm_shift_right(r->a, ASM_R11, RING_PATIENCE_BITS);
	asm_jump_if(r->a, ASM_E, &again);
}

static void emit_out(struct ring_code *r)
{
	static const uint8_t out[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
	struct asm_label drop = {0};

	if (r->when_full == TRAMPOLINE_DROP) {
		asm_compare_mem(r->a, ring_header_at(r, offsetof(struct ring_header, doorbell)), 0);
		asm_jump_if(r->a, ASM_E, &drop);
	}
	r->out->trap = (uint16_t)r->a->size;
	asm_bytes(r->a, out, sizeof(out));
	asm_bind(r->a, &drop);
}

void ring_emit_full(struct ring_code *r)
{
	asm_bind(r->a, &r->full);
	if (r->when_full == TRAMPOLINE_SPIN)
		emit_spin(r);
	else
		emit_out(r);
}
