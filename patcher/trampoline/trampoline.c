/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <string.h>
#include "introspect/guest/guest.h"
#include "patcher/trampoline/code.h"

enum { FLAG_INTERRUPTS = 1 << 9 };

/* R10 is the CPU's distance from CPU 0's ring, R11 the record's offset in the data. */
static void emit_start(struct trampoline_code *c)
{
	struct asm_mem cpu = {ASM_NO_REG, ASM_NO_REG, c->spec->kernel->cpu_number, true};
	static const uint8_t pushf_cli[] = {0x9c, 0xfa}, pushf_nop[] = {0x9c, 0x90};

	asm_bytes(&c->a, c->spec->unprivileged ? pushf_nop : pushf_cli, 2);
	asm_multiply(&c->a, ASM_R10, cpu, (int32_t)ring_stride(c->spec->rings.data_bytes));
}

/*
 * No LOCK: only this CPU writes `reserve`, and what can come between, an NMI, comes between whole
 * instructions. It may reserve between the check and the XADD, which RING_SLACK allows for.
 */
static void emit_reserve(struct trampoline_code *c, struct asm_label *retry, struct asm_label *slow)
{
	struct asm_mem reserve = trampoline_header_at(c, offsetof(struct ring_header, reserve));

	asm_bind(&c->a, retry);
	c->out->retry = (uint16_t)c->a.size;
	asm_load(&c->a, ASM_64, ASM_R11, reserve);
	asm_compare_load(&c->a, ASM_R11,
			 trampoline_header_at(c, offsetof(struct ring_header, limit)));
	asm_jump_if(&c->a, ASM_AE, slow);
	if (c->out->layout.items)
		trampoline_items_size(c, ASM_R11);
	else
		asm_constant32(&c->a, ASM_R11, c->out->layout.size);
	asm_xadd(&c->a, reserve, ASM_R11);
	asm_alu(&c->a, ASM_32, ASM_AND, ASM_R11, (int32_t)(c->spec->rings.data_bytes - 1));
}

/* Publishing is a plain store: x86 keeps stores in order. */
static void emit_commit(struct trampoline_code *c)
{
	struct asm_mem to = trampoline_record_at(c, offsetof(struct ring_record, commit));

	if (c->out->layout.items)
		trampoline_items_count(c);
	asm_store_constant(&c->a, to, ring_commit(c->spec->id));
}

/*
 * Not by POPF: the CPU would take an interrupt that is pending at the instruction behind it, which
 * the guest's unwinder does not know. After STI it takes it behind the jump, in the guest's own
 * code (Intel SDM volume 2, STI). RET is followed by an INT3, against speculation past it.
 */
static void emit_leave(struct trampoline_code *c)
{
	static const uint8_t sti = 0xfb, nop = 0x90, ret_int3[] = {0xc3, 0xcc};
	struct asm_label stay_off = {0};

	asm_pop(&c->a, ASM_R11);
	asm_test_bits(&c->a, ASM_R11, FLAG_INTERRUPTS);
	asm_jump_if(&c->a, ASM_E, &stay_off);
	asm_bytes(&c->a, c->spec->unprivileged ? &nop : &sti, 1);
	asm_bind(&c->a, &stay_off);
	if (c->spec->next)
		asm_jump_to(&c->a, c->spec->next);
	else
		asm_bytes(&c->a, ret_int3, sizeof(ret_int3));
}

/*
 * Until there is room, or the deadline has passed that the first waiting writer set for all CPUs.
 * A deadline that has passed stays so until the host clears it. One that is too far away was meant
 * for another clock, and has passed, too. R11 is loaded again by the retry.
 */
static void emit_spin(struct trampoline_code *c, struct asm_label *retry)
{
	static const uint8_t pause[] = {0xf3, 0x90};
	struct asm_label again = {0};

	c->out->trap = (uint16_t)c->a.size;
	asm_bind(&c->a, &again);
	asm_bytes(&c->a, pause, sizeof(pause));
	asm_load(&c->a, ASM_64, ASM_R11,
		 trampoline_header_at(c, offsetof(struct ring_header, reserve)));
	asm_compare_load(&c->a, ASM_R11,
			 trampoline_header_at(c, offsetof(struct ring_header, limit)));
	asm_jump_if(&c->a, ASM_B, retry);
	trampoline_emit_patience(c);
	asm_shift_right(&c->a, ASM_R11, RING_PATIENCE_BITS);
	asm_jump_if(&c->a, ASM_E, &again);
}

static void emit_ring(struct trampoline_code *c)
{
	static const uint8_t out[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};
	struct asm_label drop = {0};

	if (c->spec->full == TRAMPOLINE_DROP) {
		asm_compare_mem(&c->a,
				trampoline_header_at(c, offsetof(struct ring_header, doorbell)), 0);
		asm_jump_if(&c->a, ASM_E, &drop);
	}
	c->out->trap = (uint16_t)c->a.size;
	asm_bytes(&c->a, out, sizeof(out));
	asm_bind(&c->a, &drop);
}

static void emit_slow(struct trampoline_code *c, struct asm_label *retry, struct asm_label *skip)
{
	if (c->spec->full == TRAMPOLINE_SPIN)
		emit_spin(c, retry);
	else
		emit_ring(c);
	if (c->out->layout.items)
		trampoline_items_lost(c);
	else
		trampoline_emit_lost(c);
	asm_jump(&c->a, skip);
}

static int emit(struct trampoline_code *c, struct error *err)
{
	struct asm_label retry = {0}, slow = {0}, skip = {0};
	bool items = c->out->layout.items;

	emit_start(c);
	if (c->spec->capture.items.from == ITEMS_SAVED)
		trampoline_save_array(c);
	if (items)
		trampoline_items_begin(c);
	emit_reserve(c, &retry, &slow);
	trampoline_emit_clock(c);
	trampoline_emit_fields(c);
	if (items)
		trampoline_items_copy(c);
	emit_commit(c);
	asm_bind(&c->a, &skip);
	c->out->skip = (uint16_t)c->a.size;
	if (items)
		trampoline_items_next(c);
	emit_leave(c);
	asm_bind(&c->a, &slow);
	emit_slow(c, &retry, &skip);
	c->out->size = (uint16_t)c->a.size;
	return assembler_finish(&c->a, err);
}

struct boundaries {
	bool starts[TRAMPOLINE_MAX];
};

static int bad_code(const struct insn *insn, const char *what, struct error *err)
{
	return error_set_at(err, EILSEQ, insn->address, "generated trampoline: %s", what);
}

/* Targets of jumps are checked when all instructions are known. */
static int check_insns(const struct trampoline_spec *spec, struct decoder *decoder,
		       const struct trampoline *t, struct boundaries *b, struct error *err)
{
	struct insn insn = {.kind = INSN_OTHER};

	memset(b, 0, sizeof(*b));
	for (size_t at = 0; at < t->size; at += insn.size) {
		int ret = decoder_decode(decoder, t->bytes + at, t->size - at, spec->gva + at,
					 &insn, err);

		if (ret)
			return ret;
		if (insn.kind == INSN_CALL_REL || insn.kind == INSN_CALL_INDIRECT ||
		    insn.kind == INSN_JMP_INDIRECT || (insn.kind == INSN_RET && spec->next))
			return bad_code(&insn, "it leaves by an instruction that it must not have",
					err);
		b->starts[at] = true;
	}
	if (insn.kind != INSN_JMP_REL)
		return bad_code(&insn, "it runs off its end", err);
	if (!b->starts[t->trap] || !b->starts[t->retry] || !b->starts[t->skip])
		return bad_code(&insn, "the host would resume it inside an instruction", err);
	return 0;
}

static int check_targets(const struct trampoline_spec *spec, struct decoder *decoder,
			 const struct trampoline *t, const struct boundaries *b, struct error *err)
{
	struct insn insn;

	for (size_t at = 0; at < t->size; at += insn.size) {
		int ret = decoder_decode(decoder, t->bytes + at, t->size - at, spec->gva + at,
					 &insn, err);
		uint64_t to = insn.target - spec->gva;

		if (ret)
			return ret;
		if (insn.kind != INSN_JMP_REL && insn.kind != INSN_JCC_REL)
			continue;
		if (insn.kind == INSN_JMP_REL && spec->next && insn.target == spec->next)
			continue;
		if (to >= t->size || !b->starts[to])
			return bad_code(&insn, "a jump leads into an instruction", err);
	}
	return 0;
}

/* Addresses are disp32(%r10,%r11), sign-extended; the registers hold less than 2 GiB together. */
static int check_rings(const struct trampoline_rings *r, struct error *err)
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

int trampoline_generate(const struct trampoline_spec *spec, struct decoder *decoder,
			struct trampoline *out, struct error *err)
{
	struct trampoline_code code = {.spec = spec, .out = out};
	struct boundaries boundaries;
	int ret = check_rings(&spec->rings, err);

	if (ret)
		return ret;
	memset(out, 0, sizeof(*out));
	ret = record_layout(&spec->capture, &out->layout, err);
	if (!ret)
		ret = trampoline_check_kernel(spec, err);
	if (ret)
		return ret;
	assembler_init(&code.a, out->bytes, sizeof(out->bytes), spec->gva);
	ret = emit(&code, err);
	if (!ret)
		ret = check_insns(spec, decoder, out, &boundaries, err);
	if (!ret)
		ret = check_targets(spec, decoder, out, &boundaries, err);
	return ret;
}
