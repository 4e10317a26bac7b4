/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/insn/decoder.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* --- Capstone -------------------------------------------------------------------------------- */

/* The functions of libcapstone, as its headers declare them (capstone/capstone.h). */
struct capstone {
	typeof(cs_open) *open;
	typeof(cs_close) *close;
	typeof(cs_option) *option;
	typeof(cs_malloc) *malloc;
	typeof(cs_free) *free;
	typeof(cs_disasm_iter) *disasm_iter;
	typeof(cs_insn_group) *insn_group;
};

#define TEXT_OF(x) #x
#define SONAME(major) "libcapstone.so." TEXT_OF(major)

static const struct {
	const char *name;
	size_t offset; /* of its pointer in struct capstone */
} functions[] = {
	{"cs_open", offsetof(struct capstone, open)},
	{"cs_close", offsetof(struct capstone, close)},
	{"cs_option", offsetof(struct capstone, option)},
	{"cs_malloc", offsetof(struct capstone, malloc)},
	{"cs_free", offsetof(struct capstone, free)},
	{"cs_disasm_iter", offsetof(struct capstone, disasm_iter)},
	{"cs_insn_group", offsetof(struct capstone, insn_group)},
};

static struct capstone loaded;
static struct error load_error;

static void load(void)
{
	void *library = dlopen(SONAME(CS_API_MAJOR), RTLD_LAZY | RTLD_LOCAL);

	if (!library) {
		error_set(&load_error, ENOENT, "cannot load the disassembler: %s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function) {
			error_set(&load_error, ENOENT, "%s has no %s", SONAME(CS_API_MAJOR),
				  functions[i].name);
			return;
		}
		*(void **)((char *)&loaded + functions[i].offset) = function;
	}
}

/*
 * Load the library, at the first call, for the rest of the process's life. -ENOENT if the library
 * or a function of it is missing.
 *
 * It is not linked: its tables, for all processors, take over 3 MiB of relocated and touched pages,
 * which a run without tracing would pay for.
 */
static int capstone_load(const struct capstone **out, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (load_error.code) {
		if (err)
			*err = load_error;
		return -load_error.code;
	}
	*out = &loaded;
	return 0;
}

/* --- sizes of the instructions that Capstone 4.0.2 gets wrong or does not know --------------- */

/* None of them changes the control flow. Encodings: Intel SDM vol. 2, chapter 2 and appendix A. */
enum {
	VEX2 = 0xc5,
	VEX3 = 0xc4,
	EVEX = 0x62,
	MAX_PREFIXES = 4, /* that compilers combine, REX included */
};

/* Bytes of ModRM, SIB and displacement in 64-bit mode (SDM vol. 2, 2.1.3 and 2.1.5). */
static int modrm_size(const uint8_t *p, size_t left)
{
	uint8_t mod, rm;
	int size = 1;

	if (left < 1)
		return -EILSEQ;
	mod = p[0] >> 6;
	rm = p[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (left < 2)
			return -EILSEQ;
		size++;
		if (mod == 0 && (p[1] & 7) == 5)
			size += 4;
	}
	if (mod == 1)
		size += 1;
	else if (mod == 2 || (mod == 0 && rm == 5))
		size += 4;
	return (size_t)size <= left ? size : -EILSEQ;
}

static size_t count_prefixes(const uint8_t *p, size_t left)
{
	size_t i = 0;

	while (i < left && i < MAX_PREFIXES &&
	       (p[i] == 0x66 || p[i] == 0x67 || p[i] == 0xf2 || p[i] == 0xf3 ||
		(p[i] & 0xf0) == 0x40))
		i++;
	return i;
}

/*
 * Bytes of `ud1` (0f b9 /r), whose operand bytes Capstone leaves out, and of 0f 01 and 0f ae with a
 * register ModRM. 0 for another instruction, -EILSEQ if it is longer than `left`.
 */
static int insn_size_special(const uint8_t *p, size_t left)
{
	size_t i = count_prefixes(p, left);
	int operand;

	if (left - i < 2 || p[i] != 0x0f)
		return 0;
	if ((p[i + 1] == 0x01 || p[i + 1] == 0xae) && left - i > 2 && p[i + 2] >= 0xc0)
		return (int)i + 3;
	if (p[i + 1] != 0xb9)
		return 0;
	operand = modrm_size(p + i + 2, left - i - 2);
	return operand < 0 ? operand : (int)i + 2 + operand;
}

/* Whether an opcode of map 1 to 3 (0f, 0f 38, 0f 3a) has an immediate byte, in its vector forms. */
static bool has_immediate(unsigned int map, uint8_t opcode)
{
	if (map != 1)
		return map == 3;
	return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
	       (opcode >= 0xc4 && opcode <= 0xc6);
}

/* Bytes before the opcode, and its map; 0 if the form is another. */
static size_t opcode_place(const uint8_t *p, size_t left, unsigned int *map)
{
	size_t i = count_prefixes(p, left);

	if (left - i < 4)
		return 0;
	if (p[i] == VEX2) {
		*map = 1;
		return i + 2;
	}
	if (p[i] == VEX3 || p[i] == EVEX) {
		*map = p[i + 1] & 7;
		return *map ? i + (p[i] == EVEX ? 4 : 3) : 0;
	}
	if (p[i] != 0x0f || (p[i + 1] != 0x38 && p[i + 1] != 0x3a))
		return 0;
	*map = p[i + 1] == 0x38 ? 2 : 3;
	return i + 2;
}

/* Bytes of an instruction of the opcode maps 0f 38 and 0f 3a, or with a VEX or EVEX prefix, for
 * those that Capstone refuses; else as above. */
static int insn_size_extended(const uint8_t *p, size_t left)
{
	unsigned int map = 0;
	size_t opcode = opcode_place(p, left, &map), size;
	int operand;

	if (!opcode || opcode >= left)
		return 0;
	operand = modrm_size(p + opcode + 1, left - opcode - 1);
	if (operand < 0)
		return operand;
	size = opcode + 1 + (size_t)operand + has_immediate(map, p[opcode]);
	return size <= left ? (int)size : -EILSEQ;
}

/* --- decoding -------------------------------------------------------------------------------- */

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

/* Of no other kind, but it saves its address, compares with it, or is about it. */
static bool knows_address(unsigned int id)
{
	return id == X86_INS_LCALL || id == X86_INS_LJMP || id == X86_INS_XBEGIN ||
	       id == X86_INS_UD0 || id == X86_INS_UD2 || id == X86_INS_UD2B;
}

static bool uses(const cs_insn *i, x86_reg base)
{
	const cs_x86 *x = &i->detail->x86;

	for (unsigned int k = 0; k < x->op_count; k++)
		if (x->operands[k].type == X86_OP_MEM && x->operands[k].mem.base == base)
			return true;
	return false;
}

static void note_address(struct insn *out, const cs_insn *i)
{
	const cs_x86_encoding *code = &i->detail->x86.encoding;
	const bool rip = uses(i, X86_REG_RIP);

	if (out->kind != INSN_OTHER || knows_address(i->id) || uses(i, X86_REG_EIP))
		return;
	out->movable = !rip;
	if (rip && code->disp_size == sizeof(int32_t) &&
	    code->disp_offset + sizeof(int32_t) <= out->size)
		out->rip_at = code->disp_offset;
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
		note_address(out, d->scratch);
		return 0;
	}
	if (!known)
		known = insn_size_extended(bytes, size);
	if (known <= 0)
		return not_whole(address, err);
	out->size = (uint8_t)known;
	return 0;
}
