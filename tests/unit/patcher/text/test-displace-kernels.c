/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every byte of functions of real Debian kernels as a place of a probe: it is refused with a
 * reason, or it is an instruction which at another address, as Zydis decodes both, does the same
 * with the same memory. Needs tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another
 * directory.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-set.h"
#include "patcher/text/displace.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { STEP = 401, MAX_BYTES = 1500, MAX_SHOWN = 10 };

#define ELSEWHERE 0xffffffffbf123457ull /* near enough to all that a kernel's text refers to */

struct sums {
	size_t functions, undecodable, boundaries, long_enough, taken, rip, branches, calls,
		refused;
	size_t wrong;
};

struct sample {
	struct displace_body body;
	const struct reserved_text *reserved;
	struct decoder *decoder;
	ZydisDecoder zydis;
	bool starts[MAX_BYTES]; /* of instructions, by Zydis */
	uint8_t sizes[MAX_BYTES];
	struct sums *sums;
};

static void wrong(struct sample *s, size_t offset, const char *what)
{
	if (s->sums->wrong++ < MAX_SHOWN)
		tap_diag("%s+%#zx: %s", s->body.name, offset, what);
}

/* False: Zydis cannot decode the function. */
static bool find_starts(struct sample *s)
{
	ZydisDecodedInstruction z;

	memset(s->starts, 0, sizeof(s->starts));
	for (size_t at = 0; at < s->body.size; at += z.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&s->zydis, NULL, s->body.bytes + at,
								s->body.size - at, &z)))
			return false;
		s->starts[at] = true;
		s->sizes[at] = z.length;
	}
	return true;
}

struct meaning {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZyanU64 addresses[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const struct sample *s, const uint8_t *bytes, size_t size, uint64_t gva,
		   struct meaning *out)
{
	memset(out, 0, sizeof(*out));
	if (!ZYAN_SUCCESS(
		    ZydisDecoderDecodeFull(&s->zydis, bytes, size, &out->insn, out->operands)))
		return false;
	for (unsigned int i = 0; i < out->insn.operand_count; i++)
		if (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&out->insn, &out->operands[i], gva,
							   &out->addresses[i])))
			out->addresses[i] = 0;
	return true;
}

static bool same_operand(const struct meaning *a, const struct meaning *b, unsigned int i)
{
	const ZydisDecodedOperand *x = &a->operands[i], *y = &b->operands[i];

	if (x->type != y->type || x->size != y->size || a->addresses[i] != b->addresses[i])
		return false;
	if (x->type == ZYDIS_OPERAND_TYPE_REGISTER)
		return x->reg.value == y->reg.value;
	if (x->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return x->imm.is_relative || x->imm.value.u == y->imm.value.u;
	return x->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	       (x->mem.base == y->mem.base && x->mem.index == y->mem.index &&
		x->mem.scale == y->mem.scale && x->mem.segment == y->mem.segment &&
		(a->addresses[i] || x->mem.disp.value == y->mem.disp.value));
}

static bool same_meaning(const struct meaning *a, const struct meaning *b)
{
	if (a->insn.mnemonic != b->insn.mnemonic || a->insn.length != b->insn.length ||
	    a->insn.attributes != b->insn.attributes ||
	    a->insn.operand_count != b->insn.operand_count)
		return false;
	for (unsigned int i = 0; i < a->insn.operand_count; i++)
		if (!same_operand(a, b, i))
			return false;
	return true;
}

static void check_taken(struct sample *s, size_t offset, const struct displaced_insn *d)
{
	struct meaning here, there;
	uint8_t bytes[INSN_MAX_SIZE];
	int size = displaced_relocate(d, ELSEWHERE, bytes, NULL);

	s->sums->taken++;
	s->sums->rip += d->rip_at != 0;
	s->sums->branches += d->kind == INSN_JCC_REL || d->kind == INSN_JMP_REL;
	s->sums->calls += d->kind == INSN_CALL_REL;
	if (!s->starts[offset] || s->sizes[offset] != d->size || d->size < JUMP_SIZE)
		return wrong(s, offset, "no long instruction is there");
	if (size != d->size ||
	    !decode(s, s->body.bytes + offset, d->size, s->body.gva + offset, &here) ||
	    !decode(s, bytes, (size_t)size, ELSEWHERE, &there))
		return wrong(s, offset, "it is none elsewhere");
	if (!same_meaning(&here, &there))
		return wrong(s, offset, "elsewhere it does something else");
	if (reserved_text_find(s->reserved, s->body.gva + offset, d->size))
		wrong(s, offset, "it has to stay");
}

/* Instructions that are long enough have a reason of their own. */
static void check_refused(struct sample *s, size_t offset, const struct error *err, int ret)
{
	const char *why = strstr(err->text, ": ");

	s->sums->refused++;
	if (!why || err->address != s->body.gva + offset)
		wrong(s, offset, "it is refused without a reason");
	if (!s->starts[offset] && ret != -EINVAL)
		wrong(s, offset, "it is refused, but not as no instruction");
	if (s->starts[offset] && s->sizes[offset] < JUMP_SIZE && !strstr(err->text, "shorter"))
		wrong(s, offset, err->text);
}

static void check_places(struct sample *s)
{
	for (size_t offset = 0; offset < s->body.size; offset++) {
		struct displaced_insn insn;
		struct error err = {0};
		int ret = displace_find(&s->body, s->decoder, s->body.gva + offset, &insn, &err);

		s->sums->boundaries += s->starts[offset];
		s->sums->long_enough += s->starts[offset] && s->sizes[offset] >= JUMP_SIZE;
		if (ret == -EBUSY || ret == -EILSEQ || (ret && strstr(err.text, "changes GS"))) {
			s->sums->undecodable++;
			tap_diag("%s", err.text);
			return;
		}
		if (ret)
			check_refused(s, offset, &err, ret);
		else
			check_taken(s, offset, &insn);
	}
}

static void test_functions(const struct kernel *kernel, struct decoder *decoder,
			   const char *version)
{
	struct traceable_list list = {0};
	struct sums sums = {0};
	struct sample s = {.decoder = decoder, .sums = &sums};
	struct error err = {0};

	ZydisDecoderInit(&s.zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ok(!reserved_text_of(kernel->image, &s.reserved, &err),
	   "%s: the kernel's lists of text are read: %s", version, err.text);
	if (err.code || traceable_list_add_image(&list, kernel->image, 0, NULL))
		return;
	for (size_t i = 0; i < list.n; i += STEP) {
		const struct symbol *symbol =
			symbols_covering(kernel->image->symbols, list.v[i].address);

		s.body = (struct displace_body){
			kernel, list.v[i].name, symbol->address, symbol->size,
			kernel_image_bytes(kernel->image, symbol->address, symbol->size)};
		if (!s.body.bytes || s.body.size > MAX_BYTES || !find_starts(&s))
			continue;
		sums.functions++;
		check_places(&s);
	}
	tap_diag("%s: %zu functions, %zu not decoded; of %zu instructions %zu are long enough, %zu "
		 "taken: %zu with RIP, %zu jumps, %zu calls",
		 version, sums.functions, sums.undecodable, sums.boundaries, sums.long_enough,
		 sums.taken, sums.rip, sums.branches, sums.calls);
	ok(sums.functions > 60 && sums.undecodable * 20 < sums.functions,
	   "%s: functions are decoded (%zu)", version, sums.functions);
	ok(!sums.wrong,
	   "%s: each place is refused with the reason, or does the same elsewhere (%zu)", version,
	   sums.taken);
	ok(sums.taken * 10 > sums.long_enough * 7, "%s: most long instructions are taken", version);
	traceable_list_deinit(&list);
}

static void test_kernel(const struct kernel_image *image, const char *version)
{
	struct fetched_guest guest;

	fetched_guest_init(&guest, image);
	test_functions(&guest.kernel, guest.decoder, version);
	fetched_guest_deinit(&guest);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "7.0", "7.3", NULL};

	return fetched_kernels_test(versions, test_kernel);
}
