/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The decoder's opinion on generated code. */
#include "patcher/trampoline/code.h"

#include <errno.h>
#include <string.h>

struct checker {
	const struct code_region *code;
	struct decoder *decoder;
	struct error *err;
	bool starts[TRAMPOLINE_MAX]; /* of instructions */
};

static int bad_code(const struct checker *c, const struct insn *insn, const char *what)
{
	return error_set_at(c->err, EILSEQ, insn->address, "generated trampoline: %s", what);
}

static bool may_call(const struct checker *c, uint64_t gva)
{
	for (size_t i = 0; i < c->code->nr_records; i++) {
		const struct fetch_program *fetch = c->code->records[i].fetch;

		if (fetch && fetch_calls(fetch, gva))
			return true;
	}
	return false;
}

static int decode(const struct checker *c, size_t at, struct insn *out)
{
	const struct code_region *code = c->code;

	return decoder_decode(c->decoder, code->bytes + at, code->size - at, code->gva + at, out,
			      c->err);
}

/* Targets of jumps are checked when all instructions are known. */
static int check_insns(struct checker *c)
{
	struct insn insn = {.kind = INSN_OTHER};

	for (size_t at = 0; at < c->code->size; at += insn.size) {
		int ret = decode(c, at, &insn);

		if (ret)
			return ret;
		if ((insn.kind == INSN_CALL_REL && !may_call(c, insn.target)) ||
		    insn.kind == INSN_CALL_INDIRECT || insn.kind == INSN_JMP_INDIRECT ||
		    (insn.kind == INSN_RET && c->code->next && !c->code->returns))
			return bad_code(c, &insn,
					"it leaves by an instruction that it must not have");
		c->starts[at] = true;
	}
	if (insn.kind != INSN_JMP_REL)
		return bad_code(c, &insn, "it runs off its end");
	return 0;
}

/* Where else than into itself it may jump. */
static bool is_way_out(const struct checker *c, uint64_t gva)
{
	const struct code_region *code = c->code;

	return (code->next && gva == code->next) || (code->other && gva == code->other);
}

static int check_targets(const struct checker *c)
{
	struct insn insn;

	for (size_t at = 0; at < c->code->size; at += insn.size) {
		int ret = decode(c, at, &insn);
		uint64_t to = insn.target - c->code->gva;

		if (ret)
			return ret;
		if (insn.kind != INSN_JMP_REL && insn.kind != INSN_JCC_REL)
			continue;
		if (insn.kind == INSN_JMP_REL && is_way_out(c, insn.target))
			continue;
		if (insn.kind == INSN_JCC_REL && c->code->other && insn.target == c->code->other)
			continue;
		if (to >= c->code->size || !c->starts[to])
			return bad_code(c, &insn, "a jump leads into an instruction");
	}
	return 0;
}

static int check_slow_paths(const struct checker *c, const struct slow_path *slow, size_t n)
{
	const struct insn first = {.address = c->code->gva};

	for (size_t i = 0; i < n; i++)
		if (!c->starts[slow[i].trap] || !c->starts[slow[i].retry] ||
		    !c->starts[slow[i].skip])
			return bad_code(c, &first,
					"the host would resume it inside an instruction");
	return 0;
}

int code_check(const struct code_region *code, const struct slow_path *slow, size_t nr_slow,
	       struct decoder *decoder, struct error *err)
{
	struct checker c = {.code = code, .decoder = decoder, .err = err};
	int ret = check_insns(&c);

	if (!ret)
		ret = check_targets(&c);
	if (!ret)
		ret = check_slow_paths(&c, slow, nr_slow);
	return ret;
}
