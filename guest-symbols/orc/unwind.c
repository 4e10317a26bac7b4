/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/orc/orc-table.h"

/* struct pt_regs, arch/x86/include/asm/ptrace.h */
enum {
	REGS_BP = 32,
	REGS_IP = 128,
	REGS_CS = 136,
	REGS_SP = 152,
	REGS_BYTES = 168,
	USER_RPL = 3,
	/* Above the registers of user mode, in kernels with FRED (TOP_OF_KERNEL_STACK_PADDING). */
	FRED_PADDING = 16,
	IS_REGS = 1, /* in RBP: it is the address of a struct pt_regs, of which this is no part */
	WORD = 8,
};

struct unwinder {
	const struct orc_text *text;
	const struct stack_slice *slice;
	uint64_t ip, sp, bp;
	bool exact; /* ip was interrupted; else it is a return address, behind the call */
};

enum step { STEP_FRAME, STEP_WHOLE, STEP_CUT };

enum { NOWHERE = -1 };

/* Of modules (Documentation/arch/x86/x86_64/mm.rst). A tracer's own code lies below. */
#define MODULES_START UINT64_C(0xffffffffa0000000)
#define MODULES_END UINT64_C(0xffffffffff000000)

/* Bytes from the slice's first word to the gva, which may be its end; NOWHERE: it is in no part. */
static int64_t place_of(const struct unwinder *u, uint64_t gva)
{
	const struct stack_slice *slice = u->slice;
	const uint64_t first = slice->n * WORD, rest = slice->rest * WORD;

	if (gva - slice->sp < first + !rest)
		return (int64_t)(gva - slice->sp);
	if (rest && gva - slice->rest_sp <= rest)
		return (int64_t)(first + gva - slice->rest_sp);
	return NOWHERE;
}

/* False: it is not in the slice. */
static bool read_word(const struct unwinder *u, uint64_t gva, uint64_t *word)
{
	const int64_t place = place_of(u, gva);

	if (place < 0 || place % WORD || (uint64_t)place / WORD >= u->slice->n + u->slice->rest)
		return false;
	*word = u->slice->words[place / WORD];
	return true;
}

static bool find_entry(const struct unwinder *u, struct orc_entry *out)
{
	const struct orc_text *text = u->text;
	const uint64_t gva = u->ip - !u->exact, link = gva - text->slide;

	if (link >= text->start && link < text->end)
		return orc_table_find(text->table, link, out);
	return text->find_other && text->find_other(text->other, gva, out);
}

/* The canonical frame address: where the frame that called begins. */
static bool find_cfa(const struct unwinder *u, const struct orc_entry *entry, uint64_t *cfa)
{
	const uint64_t offset = (uint64_t)(int64_t)entry->sp_offset;

	switch (entry->sp_base) {
	case ORC_BASE_SP:
		*cfa = u->sp + offset;
		return true;
	case ORC_BASE_BP:
		*cfa = u->bp + offset;
		return true;
	case ORC_BASE_BP_INDIRECT:
		return read_word(u, u->bp + offset, cfa);
	case ORC_BASE_SP_INDIRECT:
		if (!read_word(u, u->sp, cfa))
			return false;
		*cfa += offset;
		return true;
	default:
		return false;
	}
}

/* False: it cannot be read. What says nothing of RBP leaves it as it is. */
static bool find_bp(const struct unwinder *u, const struct orc_entry *entry, uint64_t cfa,
		    uint64_t *bp)
{
	const uint64_t offset = (uint64_t)(int64_t)entry->bp_offset;

	switch (entry->bp_base) {
	case ORC_BASE_UNDEFINED:
		return true;
	case ORC_BASE_PREV_SP:
		return read_word(u, cfa + offset, bp);
	case ORC_BASE_BP:
		return read_word(u, u->bp + offset, bp);
	default:
		return false;
	}
}

/* Stacks grow down: each frame lies above the one before, or on the stack before. */
static bool goes_up(const struct unwinder *u, uint64_t sp)
{
	return place_of(u, sp) > place_of(u, u->sp);
}

/* Whether it is code of the kernel or of a module. */
static bool is_known(const struct unwinder *u)
{
	const struct orc_text *text = u->text;
	const uint64_t link = u->ip - text->slide;
	struct orc_entry entry;

	if (!text->frame_pointers)
		return find_entry(u, &entry);
	return (link >= text->start && link < text->end) ||
	       (u->ip >= MODULES_START && u->ip < MODULES_END);
}

/* The kernel's half of the addresses; the last one is no instruction's. What was interrupted in
 * other code, such as a trampoline's, is no caller. */
static bool is_caller(const struct unwinder *u)
{
	return u->ip >> 63 && u->ip != UINT64_MAX && (!u->exact || is_known(u));
}

static bool is_replaced(const struct unwinder *u)
{
	const uint64_t *hooks = u->text->return_hooks;
	bool replaced = false;

	for (size_t i = 0; hooks && !u->exact && i < ORC_RETURN_HOOKS; i++)
		replaced |= hooks[i] && u->ip - u->text->slide == hooks[i];
	return replaced;
}

static enum step step_call(struct unwinder *u, const struct orc_entry *entry, uint64_t cfa)
{
	uint64_t bp = u->bp;

	if (!goes_up(u, cfa) || !read_word(u, cfa - WORD, &u->ip) || !find_bp(u, entry, cfa, &bp))
		return STEP_CUT;
	u->sp = cfa;
	u->bp = bp;
	u->exact = false;
	return STEP_FRAME;
}

/* At the end of the task's stack are those of user mode, also where the slice does not reach. */
static bool is_at_top(const struct unwinder *u, uint64_t regs)
{
	const uint64_t top = u->slice->top, end = regs + REGS_BYTES;

	return top && regs >= u->sp && (end == top || end + FRED_PADDING == top);
}

/* `regs` is where the struct begins, if it is whole. */
static enum step step_regs(struct unwinder *u, uint64_t regs, bool partial)
{
	uint64_t ip, cs, sp, bp = u->bp;

	if (is_at_top(u, regs))
		return STEP_WHOLE;
	if (!read_word(u, regs + REGS_IP, &ip) || !read_word(u, regs + REGS_CS, &cs) ||
	    !read_word(u, regs + REGS_SP, &sp))
		return STEP_CUT;
	if ((cs & USER_RPL) == USER_RPL)
		return STEP_WHOLE;
	if (!goes_up(u, sp) || (!partial && !read_word(u, regs + REGS_BP, &bp)))
		return STEP_CUT;
	u->ip = ip;
	u->sp = sp;
	u->bp = bp;
	u->exact = true;
	return STEP_FRAME;
}

/* RBP is where the caller's RBP is, behind which the return address lies; or registers; or 0 at the
 * end. */
static enum step step_frame(struct unwinder *u)
{
	const uint64_t frame = u->bp, end = frame + 2 * WORD;

	if (!frame)
		return STEP_WHOLE;
	if (frame & IS_REGS)
		return step_regs(u, frame - IS_REGS, false);
	if (!goes_up(u, end) || !read_word(u, frame, &u->bp) || !read_word(u, frame + WORD, &u->ip))
		return STEP_CUT;
	u->sp = end;
	u->exact = false;
	return STEP_FRAME;
}

static enum step unwind_step(struct unwinder *u)
{
	struct orc_entry entry;
	uint64_t cfa;

	if (u->text->frame_pointers)
		return step_frame(u);
	if (!find_entry(u, &entry))
		return STEP_CUT;
	if (entry.kind == ORC_KIND_END)
		return STEP_WHOLE;
	if (entry.kind == ORC_KIND_UNKNOWN || !find_cfa(u, &entry, &cfa))
		return STEP_CUT;
	if (entry.kind == ORC_KIND_CALL)
		return step_call(u, &entry, cfa);
	if (entry.kind == ORC_KIND_REGS)
		return step_regs(u, cfa, false);
	return step_regs(u, cfa - REGS_IP, true);
}

/* At the innermost caller. */
static enum step unwind_begin(struct unwinder *u, const struct orc_text *text,
			      const struct stack_slice *slice)
{
	*u = (struct unwinder){.text = text, .slice = slice, .sp = slice->sp, .bp = slice->bp};
	if (!slice->n)
		return STEP_CUT;
	if (slice->ip) {
		u->ip = slice->ip;
		u->exact = true;
		return unwind_step(u);
	}
	u->ip = slice->words[0];
	u->sp += WORD;
	return STEP_FRAME;
}

bool stack_unwind(const struct orc_text *text, const struct stack_slice *slice, uint64_t *frames,
		  size_t max, size_t *n)
{
	struct unwinder u;
	enum step step = unwind_begin(&u, text, slice);

	*n = 0;
	while (step == STEP_FRAME && *n < max && is_caller(&u) && !is_replaced(&u)) {
		frames[(*n)++] = u.ip;
		step = unwind_step(&u);
	}
	return step == STEP_WHOLE;
}
