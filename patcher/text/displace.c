/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/displace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "guest-symbols/image/mcount.h"
#include "introspect/guest/guest.h"
#include "patcher/text/body.h"

enum {
	CALL = 0xe8,
	JMP = 0xe9,
	JCC_BYTES = 6, /* 0f 80..8f, and 32 bits */
	NEAR = 64,     /* instructions in which another one is looked for */
};

/* A function while it is looked at. */
struct search {
	const struct displace_body *body;
	const struct reserved_text *reserved;
	struct insn *insns;
	size_t n;
	struct error *err;
};

static const uint8_t *bytes_of(const struct search *s, const struct insn *insn)
{
	return s->body->bytes + (insn->address - s->body->gva);
}

/* --- the whole function ----------------------------------------------------------------------- */

static bool is_trap(const uint8_t *bytes, const struct insn *insn)
{
	static const uint8_t out[GUEST_TRAP_SIZE] = {0xe6, GUEST_TRAP_PORT};

	return insn->size == sizeof(out) && !memcmp(bytes, out, sizeof(out));
}

/* A kprobe's INT3, or jump, hides the instructions that it stands for. */
static int check_foreign(const struct search *s, const struct insn *insn, const struct insn *before)
{
	const struct displace_body *body = s->body;

	if (body_shows_hidden(body->kernel, body->gva, body->bytes, body->size, insn, before))
		return error_set_at(s->err, EBUSY, insn->address,
				    "%s: an INT3 is in the function, maybe a kprobe of the guest",
				    s->body->name);
	if (insn->kind == INSN_JMP_REL && !kernel_in_image(s->body->kernel, insn->target))
		return error_set_at(
			s->err, EBUSY, insn->address,
			"%s: a jump leads out of the kernel, maybe a kprobe of the guest",
			s->body->name);
	if (is_trap(bytes_of(s, insn), insn))
		return error_set_at(s->err, EBUSY, insn->address,
				    "%s: a trap of the tracer is in the function", s->body->name);
	return 0;
}

/* Compilers put no data into kernel functions. */
static int decode(struct search *s, struct decoder *decoder)
{
	const struct displace_body *body = s->body;
	size_t pos = 0;

	while (pos < body->size) {
		struct insn *insn = &s->insns[s->n];
		int ret = decoder_decode(decoder, body->bytes + pos, body->size - pos,
					 body->gva + pos, insn, s->err);

		if (!ret)
			ret = check_foreign(s, insn, s->n ? insn - 1 : NULL);
		if (ret)
			return ret;
		pos += insn->size;
		s->n++;
	}
	return 0;
}

/*
 * Trampolines find their CPU's ring by GS. Loads of GS (0f a9, 0f b5, 8e /5), SWAPGS, WRGSBASE, and
 * the number of the register MSR_GS_BASE.
 */
static bool changes_gs(const uint8_t *bytes, size_t size)
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e,
					   0x36, 0x3e, 0x26, 0x64, 0x65};
	static const uint8_t msr[] = {0x01, 0x01, 0x00, 0xc0};
	uint8_t opcode[3] = {0};
	size_t i = 0;

	while (i < size &&
	       (memchr(prefixes, bytes[i], sizeof(prefixes)) || (bytes[i] & 0xf0) == 0x40))
		i++;
	memcpy(opcode, bytes + i, size - i < sizeof(opcode) ? size - i : sizeof(opcode));
	for (i = 0; i + sizeof(msr) <= size; i++)
		if (!memcmp(bytes + i, msr, sizeof(msr)))
			return true;
	if (opcode[0] == 0x8e)
		return (opcode[1] >> 3 & 7) == 5;
	return opcode[0] == 0x0f && (opcode[1] == 0xa9 || opcode[1] == 0xb5 ||
				     (opcode[1] == 0x01 && opcode[2] == 0xf8) ||
				     (opcode[1] == 0xae && (opcode[2] & 0xf8) == 0xd8));
}

static int check_gs(const struct search *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (changes_gs(bytes_of(s, &s->insns[i]), s->insns[i].size))
			return error_set_at(s->err, ENOTSUP, s->insns[i].address,
					    "%s: the function changes GS, by which CPUs find their "
					    "variables",
					    s->body->name);
	return 0;
}

/* --- an instruction --------------------------------------------------------------------------- */

static bool leads_inside(const struct search *s, const struct insn *insn)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->insns[i].target > insn->address &&
		    s->insns[i].target < insn->address + insn->size)
			return true;
	return false;
}

/* In the one form of each that can be written again. */
static bool has_known_form(const struct search *s, const struct insn *insn)
{
	const uint8_t *bytes = bytes_of(s, insn);

	switch (insn->kind) {
	case INSN_OTHER:
		return insn->movable || insn->rip_at;
	case INSN_CALL_REL:
		return insn->size == JUMP_SIZE && bytes[0] == CALL;
	case INSN_JMP_REL:
		return insn->size == JUMP_SIZE && bytes[0] == JMP;
	case INSN_JCC_REL:
		return insn->size == JCC_BYTES && bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80;
	default:
		return false;
	}
}

static bool overlaps(const uint64_t *sites, size_t n, uint64_t address, uint64_t size)
{
	return site_in_range(sites, n, address - (SITE_SIZE - 1), address + size) != 0;
}

/* Why a jump cannot replace it; NULL: it can. */
static const char *why_not(const struct search *s, const struct insn *insn)
{
	const struct kernel_image *image = s->body->kernel->image;
	const uint64_t link = kernel_link(s->body->kernel, insn->address);

	if (insn->size < JUMP_SIZE)
		return "the instruction is shorter than the 5 bytes of a jump";
	if (overlaps(image->return_sites, image->nr_return_sites, link, insn->size))
		return "the function returns there: probe it with r";
	if (overlaps(image->mcount_sites, image->nr_mcount_sites, link, insn->size))
		return "the function's mcount site is there: probe its beginning";
	if (!has_known_form(s, insn))
		return "the instruction cannot be executed elsewhere";
	if (leads_inside(s, insn))
		return "a jump leads into the instruction";
	return reserved_text_find(s->reserved, link, insn->size);
}

/* --- messages --------------------------------------------------------------------------------- */

/* The first from this one on that can be replaced, else the nearest in front. */
static const struct insn *find_other(const struct search *s, size_t from)
{
	for (size_t i = from; i < s->n && i <= from + NEAR; i++)
		if (!why_not(s, &s->insns[i]))
			return &s->insns[i];
	for (size_t i = from; i-- > 0 && i + NEAR >= from;)
		if (!why_not(s, &s->insns[i]))
			return &s->insns[i];
	return NULL;
}

static int refuse(const struct search *s, size_t i, int code, uint64_t place, const char *why)
{
	const struct insn *other = find_other(s, i);
	char hint[64] = "";

	if (other)
		snprintf(hint, sizeof(hint), "; try +%#llx",
			 (unsigned long long)(other->address - s->body->gva));
	return error_set_at(s->err, code, place, "%s+%#llx cannot be probed: %s%s", s->body->name,
			    (unsigned long long)(place - s->body->gva), why, hint);
}

/* --- all -------------------------------------------------------------------------------------- */

static void take(const struct insn *insn, const uint8_t *bytes, struct displaced_insn *out)
{
	memset(out, 0, sizeof(*out));
	out->gva = insn->address;
	out->target = insn->target;
	out->size = insn->size;
	out->kind = (uint8_t)insn->kind;
	out->rip_at = insn->rip_at;
	memcpy(out->bytes, bytes, insn->size);
}

int displaced_decode(struct decoder *decoder, const uint8_t *bytes, size_t size, uint64_t gva,
		     struct displaced_insn *out, struct error *err)
{
	struct insn insn;
	int ret = decoder_decode(decoder, bytes, size, gva, &insn, err);

	if (!ret)
		take(&insn, bytes, out);
	return ret;
}

static int find(const struct search *s, uint64_t place, struct displaced_insn *out)
{
	const char *why;
	size_t i = 0;

	while (i < s->n && s->insns[i].address + s->insns[i].size <= place)
		i++;
	if (i == s->n)
		return error_set_at(s->err, EINVAL, place, "%s ends in front of that",
				    s->body->name);
	if (s->insns[i].address != place)
		return refuse(s, i, EINVAL, place, "no instruction begins there");
	why = why_not(s, &s->insns[i]);
	if (why)
		return refuse(s, i, ENOTSUP, place, why);
	take(&s->insns[i], bytes_of(s, &s->insns[i]), out);
	return 0;
}

int displace_find(const struct displace_body *body, struct decoder *decoder, uint64_t place,
		  struct displaced_insn *out, struct error *err)
{
	struct error local;
	struct search s = {.body = body, .err = err ? err : &local};
	int ret;

	if (!body->size || body->size > FUNCTION_MAX_SIZE)
		return error_set_at(err, E2BIG, body->gva, "%s: a function of %zu bytes",
				    body->name, body->size);
	ret = reserved_text_of(body->kernel->image, &s.reserved, s.err);
	if (ret)
		return ret;
	s.insns = calloc(body->size, sizeof(*s.insns));
	if (!s.insns)
		return error_set(err, ENOMEM, "out of memory");
	ret = decode(&s, decoder);
	if (!ret)
		ret = check_gs(&s);
	if (!ret)
		ret = find(&s, place, out);
	free(s.insns);
	return ret;
}

/* --- relocation ------------------------------------------------------------------------------- */

int displaced_relocate(const struct displaced_insn *insn, uint64_t gva, uint8_t *bytes,
		       struct error *err)
{
	const uint8_t at = insn->kind == INSN_OTHER ? insn->rip_at : (uint8_t)(insn->size - 4);
	int64_t distance;
	int32_t rel;

	memcpy(bytes, insn->bytes, insn->size);
	if (!at)
		return insn->size;
	memcpy(&rel, insn->bytes + at, sizeof(rel));
	distance = rel + (int64_t)(insn->gva - gva);
	rel = (int32_t)distance;
	if (rel != distance)
		return error_set_at(err, ERANGE, insn->gva,
				    "what the instruction refers to is too far from the code");
	memcpy(bytes + at, &rel, sizeof(rel));
	return insn->size;
}
