/* SPDX-License-Identifier: GPL-2.0-or-later */
/* LIBS: -lZydis */
/*
 * The decoder against Zydis: length, kind of control flow and target of every instruction of real
 * kernels. $KERNELS_DIR names the directory they are in; SONDE_INSN_EVERY=1 takes every function
 * instead of every fifth.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/insn/decoder.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum { DEFAULT_EVERY = 5, MAX_SHOWN = 20, FUNCTION_MAX = 1 << 20 };

struct oracle {
	struct decoder *decoder;
	ZydisDecoder zydis;
	uint64_t instructions, branches, disagreements, undecodable;
};

static bool is_branch(const ZydisDecodedInstruction *z)
{
	return z->meta.category == ZYDIS_CATEGORY_COND_BR ||
	       z->meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
	       z->meta.category == ZYDIS_CATEGORY_CALL;
}

static enum insn_kind kind_of_branch(const ZydisDecodedInstruction *z, bool relative)
{
	if (z->meta.category == ZYDIS_CATEGORY_COND_BR)
		return INSN_JCC_REL;
	if (z->meta.category == ZYDIS_CATEGORY_CALL)
		return relative ? INSN_CALL_REL : INSN_CALL_INDIRECT;
	return relative ? INSN_JMP_REL : INSN_JMP_INDIRECT;
}

/* What Zydis says, in the decoder's terms. */
static struct insn expected(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands,
			    uint64_t address)
{
	struct insn insn = {.address = address, .size = z->length};
	bool relative =
		operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[0].imm.is_relative;

	if (z->meta.category == ZYDIS_CATEGORY_RET || z->meta.category == ZYDIS_CATEGORY_SYSRET)
		insn.kind = INSN_RET;
	else if (z->mnemonic == ZYDIS_MNEMONIC_INT3)
		insn.kind = INSN_INT3;
	else if (is_branch(z))
		insn.kind = kind_of_branch(z, relative);
	if (is_branch(z) && relative)
		ZydisCalcAbsoluteAddress(z, &operands[0], address, &insn.target);
	return insn;
}

static void show(struct oracle *o, const uint8_t *bytes, const struct insn *got,
		 const struct insn *want)
{
	char hex[3 * 15 + 1] = "";

	if (o->disagreements++ >= MAX_SHOWN)
		return;
	for (unsigned int i = 0; i < want->size; i++)
		sprintf(hex + 3 * i, "%02x ", bytes[i]);
	tap_diag("%llx: %s: got size %u kind %d to %llx, want size %u kind %d to %llx",
		 (unsigned long long)want->address, hex, got->size, got->kind,
		 (unsigned long long)got->target, want->size, want->kind,
		 (unsigned long long)want->target);
}

/* Returns the size to go on by. */
static size_t compare(struct oracle *o, const uint8_t *bytes, size_t left, uint64_t address)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {0};
	ZydisDecodedInstruction z;
	struct insn got = {0}, want;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&o->zydis, bytes, left, &z, operands))) {
		o->undecodable++;
		return left;
	}
	want = expected(&z, operands, address);
	o->instructions++;
	o->branches += want.target != 0;
	if (decoder_decode(o->decoder, bytes, left, address, &got, NULL) || got.size != want.size ||
	    got.kind != want.kind || got.target != want.target)
		show(o, bytes, &got, &want);
	return want.size;
}

static void compare_function(struct oracle *o, const struct kernel_image *image, size_t index)
{
	const struct symbol *s = symbols_at(image->symbols, index);
	const uint8_t *bytes;

	/* further names of the same function */
	if (index && symbols_at(image->symbols, index - 1)->address == s->address)
		return;
	if (!s->size || s->size > FUNCTION_MAX || !kernel_image_is_text(image, s->address))
		return;
	bytes = kernel_image_bytes(image, s->address, s->size);
	for (size_t pos = 0; bytes && pos < s->size;)
		pos += compare(o, bytes + pos, s->size - pos, s->address + pos);
}

static void compare_kernel(struct oracle *o, const char *path, const char *version)
{
	const char *every_text = getenv("SONDE_INSN_EVERY");
	size_t every = every_text ? strtoul(every_text, NULL, 10) : DEFAULT_EVERY;
	struct kernel_image *image = NULL;
	struct kernel_file *file = NULL;
	struct error err = {0};
	int ret = kernel_file_open(path, &file, &err);

	if (ret == -ENOENT) {
		tap_skip(version, "not fetched");
		return;
	}
	if (!ret)
		ret = kernel_image_load(file, NULL, &image, &err);
	ok(!ret, "%s: the image is analysed (%s)", version, ret ? err.text : "analysed");
	for (size_t i = 0; !ret && i < symbols_count(image->symbols); i += every ? every : 1)
		compare_function(o, image, i);
	kernel_image_destroy(image);
	kernel_file_close(file);
}

static void test_kernel(struct decoder *decoder, const char *version)
{
	struct oracle o = {.decoder = decoder};
	char path[FETCHED_KERNEL_PATH];

	ZydisDecoderInit(&o.zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	fetched_kernel_path(path, version);
	compare_kernel(&o, path, version);
	if (!o.instructions)
		return;
	ok(!o.disagreements,
	   "%s: %llu instructions, %llu of them direct branches, are decoded as by Zydis", version,
	   (unsigned long long)o.instructions, (unsigned long long)o.branches);
	ok(o.undecodable * 1000 < o.instructions,
	   "%s: Zydis cannot decode less than 0.1 %% of the functions (%llu)", version,
	   (unsigned long long)o.undecodable);
}

struct sample {
	const char *name;
	uint8_t bytes[15];
	uint8_t size;
	enum insn_kind kind;
	uint64_t target;
};

/* At address 0x1000. */
static const struct sample samples[] = {
	{"call rel32", {0xe8, 0xfb, 0x0f, 0, 0}, 5, INSN_CALL_REL, 0x2000},
	{"jmp rel32 backwards", {0xe9, 0xfb, 0xef, 0xff, 0xff}, 5, INSN_JMP_REL, 0},
	{"jmp rel8", {0xeb, 0x10}, 2, INSN_JMP_REL, 0x1012},
	{"jne rel8", {0x75, 0xfe}, 2, INSN_JCC_REL, 0x1000},
	{"jne rel32", {0x0f, 0x85, 0, 1, 0, 0}, 6, INSN_JCC_REL, 0x1106},
	{"loop", {0xe2, 0x02}, 2, INSN_JCC_REL, 0x1004},
	{"jrcxz", {0xe3, 0x02}, 2, INSN_JCC_REL, 0x1004},
	{"jmp *%rax", {0xff, 0xe0}, 2, INSN_JMP_INDIRECT, 0},
	{"jmp *table(,%rax,8)", {0xff, 0x24, 0xc5, 0, 0, 0, 0x81}, 7, INSN_JMP_INDIRECT, 0},
	{"call *%rax", {0xff, 0xd0}, 2, INSN_CALL_INDIRECT, 0},
	{"ret", {0xc3}, 1, INSN_RET, 0},
	{"ret $8", {0xc2, 8, 0}, 3, INSN_RET, 0},
	{"iretq", {0x48, 0xcf}, 2, INSN_RET, 0},
	{"sysretq", {0x48, 0x0f, 0x07}, 3, INSN_RET, 0},
	{"int3", {0xcc}, 1, INSN_INT3, 0},
	{"push $imm32 has no target", {0x68, 0x78, 0x56, 0x34, 0x12}, 5, INSN_OTHER, 0},
	{"ud2", {0x0f, 0x0b}, 2, INSN_OTHER, 0},
	{"ud1 disp8(%rax),%eax", {0x0f, 0xb9, 0x40, 0x07}, 4, INSN_OTHER, 0},
	{"ud1 with SIB and disp32", {0x67, 0x0f, 0xb9, 0x84, 0x25, 1, 2, 3, 4}, 9, INSN_OTHER, 0},
	{"serialize", {0x0f, 0x01, 0xe8}, 3, INSN_OTHER, 0},
	{"pvalidate", {0xf2, 0x0f, 0x01, 0xff}, 4, INSN_OTHER, 0},
	{"vpshufb: EVEX", {0x62, 0xf2, 0x75, 0x48, 0x00, 0x48, 0x01}, 7, INSN_OTHER, 0},
	{"vpslld $imm8: EVEX", {0x62, 0xf1, 0x65, 0x08, 0x72, 0xc3, 0x10}, 7, INSN_OTHER, 0},
	{"vpternlogq: EVEX", {0x62, 0xf3, 0xd5, 0x48, 0x25, 0xc4, 0x96}, 7, INSN_OTHER, 0},
	{"tilerelease: VEX", {0xc4, 0xe2, 0x78, 0x49, 0xc0}, 5, INSN_OTHER, 0},
	{"wrussq: 0f 38", {0x66, 0x48, 0x0f, 0x38, 0xf5, 0x1e}, 6, INSN_OTHER, 0},
	{"tpause %ecx", {0x66, 0x0f, 0xae, 0xf1}, 4, INSN_OTHER, 0},
	{"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, 4, INSN_OTHER, 0},
	{"out", {0xe6, 0xe4}, 2, INSN_OTHER, 0},
};

static void test_samples(struct decoder *decoder)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *s = &samples[i];
		struct error err = {0};
		struct insn insn;

		ok(!decoder_decode(decoder, s->bytes, sizeof(s->bytes), 0x1000, &insn, NULL) &&
			   insn.size == s->size && insn.kind == s->kind &&
			   insn.target == s->target && insn.address == 0x1000,
		   "%s is decoded", s->name);
		ok(decoder_decode(decoder, s->bytes, s->size - 1u, 0x1000, &insn, &err) ==
				   -EILSEQ &&
			   err.address == 0x1000,
		   "%s cut off is refused", s->name);
	}
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2"};
	struct decoder *decoder;

	if (decoder_create(&decoder, NULL))
		return 1;
	test_samples(decoder);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		test_kernel(decoder, versions[i]);
	decoder_destroy(decoder);
	return tap_done();
}
