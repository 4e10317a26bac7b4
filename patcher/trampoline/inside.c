/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <string.h>
#include "patcher/text/site.h"
#include "patcher/trampoline/code.h"

enum { PUSH_IMM = 0x68, SP_AT = 32 /* the guest's stack pointer, from RSP: above what is saved */ };

/* See direct_saved_at(). */
static const enum asm_reg saved[] = {ASM_RAX, ASM_R10, ASM_R11};
enum { NR_SAVED = sizeof(saved) / sizeof(saved[0]) };

/* Functions of the guest, which read memory, expect a clear direction flag. */
static void emit_begin(struct assembler *a, bool unprivileged)
{
	static const uint8_t cld = 0xfc;

	for (int i = 0; i < NR_SAVED; i++)
		asm_push(a, saved[i]);
	code_enter(a, unprivileged);
	asm_bytes(a, &cld, sizeof(cld));
}

static void emit_end(struct assembler *a)
{
	static const uint8_t popf = 0x9d;

	asm_bytes(a, &popf, sizeof(popf));
	for (int i = NR_SAVED; i-- > 0;)
		asm_pop(a, saved[i]);
}

static int emit_call(struct assembler *a, const struct displaced_insn *insn, struct error *err)
{
	const uint64_t behind = insn->gva + insn->size;
	uint8_t push[JUMP_SIZE] = {PUSH_IMM};

	if ((int64_t)behind != (int32_t)behind)
		return error_set_at(err, ERANGE, insn->gva,
				    "the address cannot be pushed by one instruction");
	memcpy(push + 1, &behind, sizeof(int32_t));
	asm_bytes(a, push, sizeof(push));
	asm_jump_to(a, insn->target);
	return 0;
}

static int emit_insn(struct assembler *a, const struct displaced_insn *insn, struct error *err)
{
	uint8_t bytes[INSN_MAX_SIZE];
	int size;

	if (insn->kind == INSN_CALL_REL)
		return emit_call(a, insn, err);
	size = displaced_relocate(insn, a->gva + a->size, bytes, err);
	if (size < 0)
		return size;
	asm_bytes(a, bytes, (size_t)size);
	if (insn->kind != INSN_JMP_REL)
		asm_jump_to(a, insn->gva + insn->size);
	return 0;
}

static int emit(const struct inside_spec *spec, struct shared_code *out, struct error *err)
{
	struct assembler a;
	struct direct_code records = {.a = &a,
				      .point = POINT_INSIDE,
				      .kernel = spec->kernel,
				      .records = spec->records,
				      .n = spec->nr_records,
				      .ip = spec->insn->gva + SITE_SIZE,
				      .caller_at = SP_AT,
				      .keep_rdx = true,
				      .slow = out->slow};
	int ret;

	assembler_init(&a, out->bytes, sizeof(out->bytes), spec->gva);
	emit_begin(&a, spec->unprivileged);
	direct_emit(&records);
	emit_end(&a);
	ret = emit_insn(&a, spec->insn, err);
	direct_emit_slow(&records);
	out->size = (uint16_t)a.size;
	return ret ? ret : assembler_finish(&a, err);
}

int inside_generate(const struct inside_spec *spec, struct decoder *decoder,
		    struct shared_code *out, struct error *err)
{
	const struct displaced_insn *insn = spec->insn;
	const bool leaves = insn->kind == INSN_CALL_REL || insn->kind == INSN_JMP_REL;
	int ret = direct_check(spec->records, spec->nr_records, POINT_INSIDE, spec->kernel, err);

	if (ret)
		return ret;
	if (!spec->nr_records)
		return error_set(err, EINVAL, "code without records");
	memset(out, 0, sizeof(*out));
	ret = emit(spec, out, err);
	if (ret)
		return ret;
	return code_check(
		&(struct code_region){.bytes = out->bytes,
				      .size = out->size,
				      .gva = spec->gva,
				      .next = leaves ? insn->target : insn->gva + insn->size,
				      .other = insn->kind == INSN_JCC_REL ? insn->target : 0,
				      .records = spec->records,
				      .nr_records = spec->nr_records},
		out->slow, spec->nr_records, decoder, err);
}
