/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/function-exits.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "guest-symbols/image/mcount.h"

enum {
	MAX_SITE_OFFSET = 4, /* of an mcount site: behind an ENDBR */
	SHORT_JUMP = 2,      /* bytes of a jump to what is near */
};

/* What begins at a symbol of the text, up to the next one. */
struct code {
	uint64_t address, end;
	struct exit_range slots;
	size_t first_jump; /* its jumps to others; they end where the next code's begin */
	bool has_site;
	bool is_part;   /* of a function, not one by itself */
	bool is_target; /* others jump to its first instruction */
};

struct function_exits {
	struct code *codes; /* by address; one more at the end, with first_jump only */
	size_t nr_codes;
	uint32_t *jumps; /* to codes, by their index */
	size_t nr_jumps, room;
};

static void destroy(void *fact)
{
	struct function_exits *exits = fact;

	free(exits->codes);
	free(exits->jumps);
	free(exits);
}

/* --- codes ----------------------------------------------------------------------------------- */

static uint64_t address_at(const void *arg, size_t i)
{
	return ((const uint64_t *)arg)[i];
}

/* Index of the first of `v` that is not below `address`, which is not 0. */
static size_t find_address(const uint64_t *v, size_t n, uint64_t address)
{
	return search_above(n, address - 1, address_at, v);
}

static bool is_code(const struct kernel_image *image, const struct symbol *symbol)
{
	int type = tolower((unsigned char)symbol->type);

	return (type == 't' || type == 'w') && kernel_image_is_text(image, symbol->address);
}

static bool begins_with_site(const struct kernel_image *image, uint64_t address)
{
	return site_in_range(image->mcount_sites, image->nr_mcount_sites, address,
			     address + MAX_SITE_OFFSET + 1);
}

/* What the compiler has put elsewhere: cold parts; and the bodies of system calls, which are inline
 * functions (include/linux/syscalls.h), so that they have no mcount site. */
static bool is_part(const char *name)
{
	return strstr(name, ".cold") || !strncmp(name, "__do_sys_", strlen("__do_sys_")) ||
	       !strncmp(name, "__se_sys_", strlen("__se_sys_"));
}

static void add_code(struct function_exits *exits, const struct kernel_image *image,
		     const struct symbol *symbol)
{
	struct code *code = exits->nr_codes ? &exits->codes[exits->nr_codes - 1] : NULL;

	if (!code || code->address != symbol->address) {
		code = &exits->codes[exits->nr_codes++];
		code->address = symbol->address;
		code->end = symbol->address + symbol->size;
		code->has_site = begins_with_site(image, symbol->address);
	}
	code->is_part |= is_part(symbol->name);
}

static int add_codes(struct function_exits *exits, const struct kernel_image *image,
		     struct error *err)
{
	size_t n = symbols_count(image->symbols);

	exits->codes = calloc(n + 1, sizeof(*exits->codes));
	if (!exits->codes)
		return error_set(err, ENOMEM, "no memory for %zu functions", n);
	for (size_t i = 0; i < n; i++) {
		const struct symbol *symbol = symbols_at(image->symbols, i);

		if (is_code(image, symbol))
			add_code(exits, image, symbol);
	}
	for (size_t i = 0; i < exits->nr_codes; i++) {
		struct code *code = &exits->codes[i];

		if (i + 1 < exits->nr_codes && code->end > code[1].address)
			code->end = code[1].address;
		code->slots.begin =
			find_address(image->return_sites, image->nr_return_sites, code->address);
		code->slots.end =
			find_address(image->return_sites, image->nr_return_sites, code->end);
	}
	return 0;
}

static uint64_t code_at(const void *arg, size_t i)
{
	return ((const struct code *)arg)[i].address;
}

/* The code that covers an address, or NULL. */
static struct code *covering(const struct function_exits *exits, uint64_t address)
{
	size_t n = search_above(exits->nr_codes, address, code_at, exits->codes);

	return n && address < exits->codes[n - 1].end ? &exits->codes[n - 1] : NULL;
}

/* --- jumps ----------------------------------------------------------------------------------- */

static int add_jump(struct function_exits *exits, const struct code *to, struct error *err)
{
	size_t room = exits->room ? 2 * exits->room : 1024;
	uint32_t *jumps = exits->jumps;

	if (exits->nr_jumps == exits->room) {
		jumps = reallocarray(jumps, room, sizeof(*jumps));
		if (!jumps)
			return error_set(err, ENOMEM, "no memory for %zu jumps", room);
		exits->jumps = jumps;
		exits->room = room;
	}
	exits->jumps[exits->nr_jumps++] = (uint32_t)(to - exits->codes);
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
static bool leads_on(const struct code *to, uint64_t target, size_t length)
{
	return to && (target == to->address || (to->is_part && length > SHORT_JUMP));
}

static int add_jumps_of(struct function_exits *exits, const struct kernel_image *image,
			struct code *code, struct error *err)
{
	const size_t size = code->end - code->address;
	const uint8_t *bytes = kernel_image_bytes(image, code->address, size);
	int ret = 0;

	code->first_jump = exits->nr_jumps;
	for (size_t i = 0; bytes && !ret && i < size; i++) {
		int64_t distance;
		size_t length = jump_at(bytes + i, size - i, &distance);
		uint64_t target = code->address + i + length + (uint64_t)distance;
		struct code *to;

		if (!length || (target >= code->address && target < code->end))
			continue;
		to = covering(exits, target);
		if (!leads_on(to, target, length))
			continue;
		to->is_target |= target == to->address;
		ret = add_jump(exits, to, err);
	}
	return ret;
}

static int derive(const struct kernel_image *image, void **out, struct error *err)
{
	struct function_exits *exits = calloc(1, sizeof(*exits));
	int ret = exits ? add_codes(exits, image, err) : error_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < exits->nr_codes; i++)
		ret = add_jumps_of(exits, image, &exits->codes[i], err);
	if (ret) {
		if (exits)
			destroy(exits);
		return ret;
	}
	exits->codes[exits->nr_codes].first_jump = exits->nr_jumps;
	*out = exits;
	return 0;
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

/* --- exits of a function --------------------------------------------------------------------- */

/* Codes that are reached, in the order in which they are looked into. */
struct walk {
	struct {
		const struct code *code;
		bool counts; /* its slots do */
	} steps[FUNCTION_EXITS_MAX];
	size_t n;
};

/* From code whose slots count, or do not: a part is like the function that it belongs to. */
static void reach(struct walk *walk, const struct code *code, bool from)
{
	for (size_t i = 0; i < walk->n; i++)
		if (walk->steps[i].code == code)
			return;
	if (walk->n == FUNCTION_EXITS_MAX)
		return;
	walk->steps[walk->n].code = code;
	walk->steps[walk->n++].counts = code->has_site || (code->is_part && from);
}

size_t function_exits_find(const struct function_exits *exits, uint64_t function, bool tails,
			   struct exit_range out[FUNCTION_EXITS_MAX])
{
	const struct code *first = covering(exits, function);
	struct walk walk = {.n = 0};
	size_t n = 0;

	if (first && first->has_site && first->address == function)
		reach(&walk, first, true);
	for (size_t i = 0; i < walk.n; i++) {
		const struct code *code = walk.steps[i].code;

		for (size_t k = code->first_jump; k < code[1].first_jump; k++) {
			const struct code *to = &exits->codes[exits->jumps[k]];

			if (tails || (to->is_part && !to->has_site))
				reach(&walk, to, walk.steps[i].counts);
		}
		if (walk.steps[i].counts && code->slots.begin < code->slots.end)
			out[n++] = code->slots;
	}
	return n;
}

enum function_returns function_returns_of(const struct function_exits *exits, uint64_t function)
{
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	const size_t own = function_exits_find(exits, function, false, ranges);

	if (!own)
		return FUNCTION_RETURNS_NONE;
	return function_exits_find(exits, function, true, ranges) > own ? FUNCTION_RETURNS_SOME
									: FUNCTION_RETURNS_ALL;
}

/* --- tail calls ------------------------------------------------------------------------------ */

struct function_tails {
	const struct function_exits *exits;
	bool *reached;  /* by index of the codes */
	uint32_t *left; /* reached codes whose jumps have not been followed */
};

int function_tails_create(const struct function_exits *exits, struct function_tails **out,
			  struct error *err)
{
	struct function_tails *tails = calloc(1, sizeof(*tails));

	if (!tails)
		return error_set(err, ENOMEM, "out of memory");
	tails->exits = exits;
	tails->reached = calloc(exits->nr_codes + 1, sizeof(*tails->reached));
	tails->left = calloc(exits->nr_codes + 1, sizeof(*tails->left));
	if (!tails->reached || !tails->left) {
		function_tails_destroy(tails);
		return error_set(err, ENOMEM, "no memory for %zu functions", exits->nr_codes);
	}
	*out = tails;
	return 0;
}

void function_tails_destroy(struct function_tails *tails)
{
	if (!tails)
		return;
	free(tails->reached);
	free(tails->left);
	free(tails);
}

/* Returns how many codes are left then. */
static size_t follow(struct function_tails *tails, const struct code *from, size_t left)
{
	for (size_t i = from->first_jump; i < from[1].first_jump; i++) {
		const uint32_t to = tails->exits->jumps[i];

		if (tails->reached[to])
			continue;
		tails->reached[to] = true;
		tails->left[left++] = to;
	}
	return left;
}

void function_tails_add(struct function_tails *tails, uint64_t function)
{
	const struct code *code = covering(tails->exits, function);
	size_t left = code ? follow(tails, code, 0) : 0;

	while (left) {
		const struct code *next = &tails->exits->codes[tails->left[left - 1]];

		left = follow(tails, next, left - 1);
	}
}

bool function_tails_has(const struct function_tails *tails, uint64_t function)
{
	const struct code *code = covering(tails->exits, function);

	return code && code->address == function && code->is_target &&
	       tails->reached[code - tails->exits->codes];
}
