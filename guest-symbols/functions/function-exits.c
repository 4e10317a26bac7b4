/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What begins where in text, and where its jumps lead. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"
#include "guest-symbols/functions/exits-internal.h"
#include "guest-symbols/image/mcount.h"
#include "guest-symbols/insn/decoder.h"

enum {
	MAX_SITE_OFFSET = 4, /* of an mcount site: behind an ENDBR */
	SHORT_JUMP = 2,      /* bytes of a jump to what is near */
	SLOT_SIZE = 5,       /* of a return slot */
};

void function_exits_destroy(struct function_exits *exits)
{
	if (!exits)
		return;
	free(exits->codes);
	free(exits->jumps);
	free(exits);
}

/* --- codes ----------------------------------------------------------------------------------- */

static uint64_t address_at(const void *arg, size_t i)
{
	return ((const uint64_t *)arg)[i];
}

/* Index of the first of `v` that is not below `address`. */
static size_t find_address(const uint64_t *v, size_t n, uint64_t address)
{
	return search_from(n, address, address_at, v);
}

/* The bodies of system calls are inline functions, so that they have no mcount site where the
 * compiler puts them elsewhere (include/linux/syscalls.h, include/linux/compat.h). */
static bool is_syscall_body(const char *name)
{
	static const char *const prefixes[] = {"__do_sys_", "__se_sys_", "__do_compat_sys_",
					       "__se_compat_sys_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

/* What the compiler has put elsewhere. */
static bool is_part(const char *name)
{
	return strstr(name, ".cold") || is_syscall_body(name);
}

static void add_code(struct function_exits *exits, const struct exit_text *text,
		     const struct exit_function *function)
{
	struct exit_code *code = exits->nr_codes ? &exits->codes[exits->nr_codes - 1] : NULL;

	if (!code || code->address != function->address) {
		code = &exits->codes[exits->nr_codes++];
		code->address = function->address;
		code->end = function->end;
		code->has_site = site_in_range(text->sites, text->nr_sites, function->address,
					       function->address + MAX_SITE_OFFSET + 1);
	}
	code->is_part |= is_part(function->name);
}

static int add_codes(struct function_exits *exits, const struct exit_text *text, struct error *err)
{
	exits->codes = calloc(text->nr_functions + 1, sizeof(*exits->codes));
	if (!exits->codes)
		return error_set(err, ENOMEM, "no memory for %zu functions", text->nr_functions);
	for (size_t i = 0; i < text->nr_functions; i++)
		add_code(exits, text, &text->functions[i]);
	for (size_t i = 0; i < exits->nr_codes; i++) {
		struct exit_code *code = &exits->codes[i];

		if (i + 1 < exits->nr_codes && code->end > code[1].address)
			code->end = code[1].address;
		code->slots.begin =
			text->first_slot + find_address(text->slots, text->nr_slots, code->address);
		code->slots.end =
			text->first_slot + find_address(text->slots, text->nr_slots, code->end);
	}
	return 0;
}

static uint64_t code_at(const void *arg, size_t i)
{
	return ((const struct exit_code *)arg)[i].address;
}

size_t exits_covering(const struct function_exits *exits, uint64_t address)
{
	const size_t n = search_above(exits->nr_codes, address, code_at, exits->codes);
	size_t index;

	if (n && address < exits->codes[n - 1].end)
		return n - 1;
	index = exits->image ? exits_covering(exits->image, address) : SIZE_MAX;
	return index == SIZE_MAX ? index : exits->nr_codes + index;
}

/* --- jumps ----------------------------------------------------------------------------------- */

static int add_jump(struct function_exits *exits, size_t to, bool inside, struct error *err)
{
	if (!array_grow(&exits->jumps, sizeof(*exits->jumps), exits->nr_jumps, &exits->room))
		return error_set(err, ENOMEM, "no memory for %zu jumps", exits->nr_jumps + 1);
	exits->jumps[exits->nr_jumps++] = (uint32_t)to | (inside ? EXIT_JUMP_INSIDE : 0);
	return 0;
}

/* If these bytes were a jump, how long it would be; *distance is from behind it. 0: they are none.
 * Intel SDM volume 2: JMP rel8, rel32, Jcc rel32. A short conditional one is not looked for: in
 * every 15th byte there would seem to be one. */
static size_t jump_at(const uint8_t *bytes, size_t left, int64_t *distance)
{
	enum { JMP_32 = 0xe9, JMP_8 = 0xeb, TWO_BYTES = 0x0f, JCC_32 = 0x80 };
	size_t opcode = bytes[0] == TWO_BYTES ? 2 : 1;
	int32_t wide;

	if (left >= SHORT_JUMP && bytes[0] == JMP_8) {
		*distance = (int8_t)bytes[1];
		return SHORT_JUMP;
	}
	if (left < opcode + sizeof(wide) ||
	    (opcode == 1 ? bytes[0] != JMP_32 : (bytes[1] & 0xf0) != JCC_32))
		return 0;
	memcpy(&wide, bytes + opcode, sizeof(wide));
	*distance = wide;
	return opcode + sizeof(wide);
}

/* A tail call, or a jump into a part of the function, which is far away. */
static bool leads_on(const struct exit_code *to, uint64_t target, size_t length)
{
	return target == to->address || (to->is_part && length > SHORT_JUMP);
}

/* Whether an address is in the operand of a return slot, which is known to be no jump. *next is the
 * first slot that does not end in front of the address; addresses come in order. */
static bool is_in_operand(const struct exit_text *text, uint64_t address, size_t *next)
{
	while (*next < text->nr_slots && text->slots[*next] + SLOT_SIZE <= address)
		++*next;
	return *next < text->nr_slots && text->slots[*next] < address;
}

/* A return slot leads to a return thunk, which has no mcount site: that is no tail call. */
static bool is_return(const struct exit_text *text, uint64_t address, size_t next,
		      const struct exit_code *to)
{
	return next < text->nr_slots && text->slots[next] == address && !to->has_site;
}

enum { JMP_RM = 0xff, DECODE_MAX = 16 << 20 /* bytes, whatever an image or a guest has */ };

/* Decodes what the bytes of some functions leave open. */
struct exit_decoder {
	struct decoder *decoder; /* NULL: there is none */
	size_t left;             /* bytes that it may still decode */
	const struct kernel_image *image;
};

/* Whether these bytes, wherever in an instruction, may be a jump by a pointer (Intel SDM volume 2:
 * JMP r/m64, FF /4). A kernel with thunks for these has none that go by memory. */
static bool is_pointer_jump(const uint8_t *bytes, bool has_thunks)
{
	enum { REGISTERS = 0xc0, OPCODE = 0x38, JMP = 0x20 };

	return bytes[0] == JMP_RM && (bytes[1] & OPCODE) == JMP &&
	       (bytes[1] >= REGISTERS || !has_thunks);
}

static bool has_pointer_jump_bytes(const uint8_t *bytes, size_t size, bool has_thunks)
{
	const uint8_t *const end = bytes + size, *at = bytes;

	while (at < end && (at = memchr(at, JMP_RM, (size_t)(end - at))) && at + 1 < end)
		if (is_pointer_jump(at++, has_thunks))
			return true;
	return false;
}

/* Whether a jump, whose opcode is at `jump` and followed by `left` bytes, goes through the table of
 * a `switch`: one at a fixed address, whose first entry leads into the function itself. */
static bool is_switch(const struct kernel_image *image, const struct exit_code *code,
		      const uint8_t *jump, size_t left)
{
	enum { INDEXED = 0x24, NO_BASE = 5, OPERAND = 6 };
	const uint8_t *entry;
	uint64_t target;
	int32_t table;

	if (left < OPERAND || jump[1] != INDEXED || (jump[2] & 7) != NO_BASE)
		return false;
	memcpy(&table, jump + 3, sizeof(table));
	entry = kernel_image_bytes(image, (uint64_t)(int64_t)table, sizeof(target));
	if (!entry)
		return false;
	memcpy(&target, entry, sizeof(target));
	return target >= code->address && target < code->end;
}

/* Whether an instruction is such a jump to where it is not known, or is not known itself. */
static bool has_pointer_jump(const struct exit_decoder *d, const struct exit_code *code,
			     const uint8_t *bytes)
{
	const size_t size = code->end - code->address;
	struct insn insn;

	for (size_t at = 0; at < size; at += insn.size) {
		const uint8_t *jump;

		if (decoder_decode(d->decoder, bytes + at, size - at, at, &insn, NULL))
			return true;
		if (insn.kind != INSN_JMP_INDIRECT)
			continue;
		jump = memchr(bytes + at, JMP_RM, insn.size);
		if (!jump ||
		    !is_switch(d->image, code, jump, (size_t)(bytes + at + insn.size - jump) - 1))
			return true;
	}
	return false;
}

/*
 * Whether the code may jump to where it is not known. In one kernel function of 200, without thunks
 * in one of nine, a part of an operand looks like such a jump: these are decoded, if it matters.
 */
static bool hides_jumps(struct exit_decoder *d, bool has_thunks, const struct exit_code *code,
			const uint8_t *bytes)
{
	const size_t size = code->end - code->address;

	if (!has_pointer_jump_bytes(bytes, size, has_thunks))
		return false;
	if (!d->decoder || size > d->left || !(code->has_site || code->is_part))
		return true;
	d->left -= size;
	return has_pointer_jump(d, code, bytes);
}

static int add_jumps_of(struct function_exits *exits, struct exit_decoder *decoder,
			const struct exit_text *text, struct exit_code *code, struct error *err)
{
	const size_t size = code->end - code->address;
	const uint8_t *bytes = text->bytes(text->arg, code->address, size);
	size_t slot = code->slots.begin - text->first_slot;
	int ret = 0;

	code->first_jump = exits->nr_jumps;
	code->hides = !bytes || hides_jumps(decoder, exits->has_thunks, code, bytes);
	for (size_t i = 0; bytes && !ret && i < size; i++) {
		int64_t distance;
		size_t length = jump_at(bytes + i, size - i, &distance), to;
		uint64_t target = code->address + i + length + (uint64_t)distance;

		if (!length || is_in_operand(text, code->address + i, &slot) ||
		    (target >= code->address && target < code->end))
			continue;
		to = exits_covering(exits, target);
		if (to != SIZE_MAX && leads_on(exits_code(exits, to), target, length) &&
		    !is_return(text, code->address + i, slot, exits_code(exits, to)))
			ret = add_jump(exits, to, target != exits_code(exits, to)->address, err);
	}
	return ret;
}

/* `image`: of the kernel's own text, unless this is that. */
static int create(const struct kernel_image *kernel, const struct function_exits *image,
		  const struct exit_text *text, struct function_exits **out, struct error *err)
{
	struct function_exits *exits = calloc(1, sizeof(*exits));
	struct exit_decoder decoder = {.left = DECODE_MAX, .image = kernel};
	int ret;

	if (!exits)
		return error_set(err, ENOMEM, "out of memory");
	/* without one, more functions count as leaving to what is not known */
	decoder_create(&decoder.decoder, NULL);
	exits->image = image;
	exits->has_thunks = symbols_find(kernel->symbols, "__x86_indirect_thunk_rax");
	ret = add_codes(exits, text, err);
	for (size_t i = 0; !ret && i < exits->nr_codes; i++)
		ret = add_jumps_of(exits, &decoder, text, &exits->codes[i], err);
	decoder_destroy(decoder.decoder);
	if (ret) {
		function_exits_destroy(exits);
		return ret;
	}
	exits->codes[exits->nr_codes].first_jump = exits->nr_jumps;
	*out = exits;
	return 0;
}

/* --- the image's ----------------------------------------------------------------------------- */

static bool is_code(const struct kernel_image *image, const struct symbol *symbol)
{
	int type = tolower((unsigned char)symbol->type);

	return (type == 't' || type == 'w') && kernel_image_is_text(image, symbol->address);
}

static const uint8_t *image_bytes(void *arg, uint64_t address, size_t size)
{
	return kernel_image_bytes(arg, address, size);
}

static size_t list_functions(const struct kernel_image *image, struct exit_function *out)
{
	size_t n = 0;

	for (size_t i = 0; i < symbols_count(image->symbols); i++) {
		const struct symbol *symbol = symbols_at(image->symbols, i);

		if (is_code(image, symbol))
			out[n++] = (struct exit_function){
				symbol->address, symbol->address + symbol->size, symbol->name};
	}
	return n;
}

static int derive(const struct kernel_image *image, void **out, struct error *err)
{
	struct exit_function *functions =
		calloc(symbols_count(image->symbols) + 1, sizeof(*functions));
	struct exit_text text = {.functions = functions,
				 .sites = image->mcount_sites,
				 .nr_sites = image->nr_mcount_sites,
				 .slots = image->return_sites,
				 .nr_slots = image->nr_return_sites,
				 .bytes = image_bytes,
				 .arg = (void *)image};
	struct function_exits *exits;
	int ret;

	if (!functions)
		return error_set(err, ENOMEM, "out of memory");
	text.nr_functions = list_functions(image, functions);
	ret = create(image, NULL, &text, &exits, err);
	free(functions);
	if (!ret)
		*out = exits;
	return ret;
}

static void destroy(void *fact)
{
	function_exits_destroy(fact);
}

int function_exits_of(const struct kernel_image *image, const struct function_exits **out,
		      struct error *err)
{
	static const struct image_fact fact = {derive, destroy};
	const void *exits;
	int ret = kernel_image_derive(image, &fact, &exits, err);

	if (!ret)
		*out = exits;
	return ret;
}

int function_exits_create(const struct kernel_image *image, const struct exit_text *text,
			  struct function_exits **out, struct error *err)
{
	const struct function_exits *of_image;
	int ret = function_exits_of(image, &of_image, err);

	return ret ? ret : create(image, of_image, text, out, err);
}
