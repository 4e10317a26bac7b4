/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/insn.h"

#include <errno.h>
#include <stdlib.h>
#include "patcher/text/capstone.h"
#include "patcher/text/insn-size.h"

struct decoder {
	const struct capstone *cs;
	csh handle;
	cs_insn *scratch;
};

int decoder_create(struct decoder **out, struct error *err)
{
	struct decoder *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return error_set(err, ENOMEM, "out of memory");
	ret = capstone_load(&d->cs, err);
	if (ret) {
		free(d);
		return ret;
	}
	if (d->cs->open(CS_ARCH_X86, CS_MODE_64, &d->handle) != CS_ERR_OK) {
		free(d);
		return error_set(err, ENOSYS, "Capstone cannot decode x86-64");
	}
	d->cs->option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	d->scratch = d->cs->malloc(d->handle);
	if (!d->scratch) {
		decoder_destroy(d);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = d;
	return 0;
}

void decoder_destroy(struct decoder *d)
{
	if (!d)
		return;
	if (d->scratch)
		d->cs->free(d->scratch, 1);
	d->cs->close(&d->handle);
	free(d);
}

static bool is_return(unsigned int id)
{
	return id == X86_INS_RET || id == X86_INS_RETF || id == X86_INS_RETFQ ||
	       id == X86_INS_IRET || id == X86_INS_IRETD || id == X86_INS_IRETQ ||
	       id == X86_INS_SYSRET || id == X86_INS_SYSEXIT;
}

static enum insn_kind kind_of(const struct decoder *d, const cs_insn *i)
{
	const cs_x86 *x = &i->detail->x86;
	bool relative = x->op_count == 1 && x->operands[0].type == X86_OP_IMM;

	if (i->id == X86_INS_INT3)
		return INSN_INT3;
	if (is_return(i->id))
		return INSN_RET;
	if (i->id == X86_INS_CALL)
		return relative ? INSN_CALL_REL : INSN_CALL_INDIRECT;
	if (i->id == X86_INS_JMP)
		return relative ? INSN_JMP_REL : INSN_JMP_INDIRECT;
	if (d->cs->insn_group(d->handle, i, CS_GRP_JUMP) ||
	    (i->id >= X86_INS_LOOP && i->id <= X86_INS_LOOPNE))
		return relative ? INSN_JCC_REL : INSN_JMP_INDIRECT;
	return INSN_OTHER;
}

static int not_whole(uint64_t address, struct error *err)
{
	return error_set_at(err, EILSEQ, address, "not a complete x86-64 instruction");
}

int decoder_decode(struct decoder *d, const uint8_t *bytes, size_t size, uint64_t address,
		   struct insn *out, struct error *err)
{
	const uint8_t *at = bytes;
	uint64_t next = address;
	size_t left = size;
	int known = insn_size_special(bytes, size);

	*out = (struct insn){.address = address};
	if (!known && d->cs->disasm_iter(d->handle, &at, &left, &next, d->scratch)) {
		out->size = (uint8_t)d->scratch->size;
		out->kind = kind_of(d, d->scratch);
		if (out->kind == INSN_CALL_REL || out->kind == INSN_JMP_REL ||
		    out->kind == INSN_JCC_REL)
			out->target = (uint64_t)d->scratch->detail->x86.operands[0].imm;
		return 0;
	}
	if (!known)
		known = insn_size_extended(bytes, size);
	if (known <= 0)
		return not_whole(address, err);
	out->size = (uint8_t)known;
	return 0;
}
