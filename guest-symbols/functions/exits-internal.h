/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_EXITS_INTERNAL_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_EXITS_INTERNAL_H

#include "guest-symbols/functions/function-exits.h"

/* function-exits.c finds what is here, exit-walk.c follows it. */

/* What begins at a symbol of the text, up to the next one. */
struct exit_code {
	uint64_t address, end;
	struct exit_range slots;
	size_t first_jump; /* its jumps to others; they end where the next code's begin */
	bool has_site;
	bool is_part; /* of a function, not one by itself */
	bool hides;   /* it may jump to a function that is not known, or its text is not */
};

/* A jump is the index of the code that it leads to, those of `image` behind the own ones. */
enum { EXIT_JUMP_INSIDE = 1u << 31 /* not to its first instruction */ };

struct function_exits {
	struct exit_code *codes; /* by address; one more at the end, with first_jump only */
	size_t nr_codes;
	uint32_t *jumps;
	size_t nr_jumps, room;
	const struct function_exits *image; /* codes beside these; or NULL */
	bool has_thunks;                    /* the kernel has thunks for jumps by a pointer */
};

/* How many codes there are, with the image's. */
static inline size_t exits_count(const struct function_exits *exits)
{
	return exits->nr_codes + (exits->image ? exits->image->nr_codes : 0);
}

static inline const struct exit_code *exits_code(const struct function_exits *exits, size_t index)
{
	return index < exits->nr_codes ? &exits->codes[index]
				       : &exits->image->codes[index - exits->nr_codes];
}

/* The index of the code that covers an address; SIZE_MAX: none does. */
size_t exits_covering(const struct function_exits *exits, uint64_t address);

#endif
