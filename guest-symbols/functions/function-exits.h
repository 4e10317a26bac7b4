/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_FUNCTION_EXITS_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_FUNCTION_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * By which return slots the functions of an image return. The slots are those of the kernel's own
 * list (image->return_sites), so that nothing that only looks like one is taken for one: a static
 * call in tail position, for example, which the kernel rewrites.
 *
 * A function returns by slots of its own, of the parts that the compiler put elsewhere (fn.cold,
 * the body of a system call), and of functions that it tail-calls. Jumps to these are found without
 * decoding: any bytes that would be a jump to another function's first instruction, or into a cold
 * part, are taken for one. By chance there may be a slot too many: a return without a call.
 *
 * Slots of functions without an mcount site are left out, as the code there may keep values in any
 * register (assembly), or must not be traced. Where a function may leave to one of these, or
 * by a pointer, function_returns_of() says so.
 */
struct function_exits;

/* A fact of the image, which owns it (kernel_image_derive()). -ENOMEM. */
int function_exits_of(const struct kernel_image *image, const struct function_exits **out,
		      struct error *err);

/*
 * Likewise the exits of functions of the image and of text beside it: of a running kernel's
 * modules, at their gvas without the kernel's slide. Functions there and in the image may jump to
 * each other. Where one of the text lies in the image, it hides the image's.
 */
struct exit_function {
	uint64_t address, end;
	const char *name;
};

struct exit_text {
	const struct exit_function *functions; /* by address */
	size_t nr_functions;
	const uint64_t *sites, *slots; /* mcount sites and return slots, sorted */
	size_t nr_sites, nr_slots;
	size_t first_slot; /* its number in ranges: slots of the image are in front of them */
	/* What stands in the text, until the next call; NULL: not known. */
	const uint8_t *(*bytes)(void *arg, uint64_t address, size_t size);
	void *arg;
};

/* `text` may go after the call, the image must outlive *out. -ENOMEM. Destroying is NULL-safe. */
int function_exits_create(const struct kernel_image *image, const struct exit_text *text,
			  struct function_exits **out, struct error *err);
void function_exits_destroy(struct function_exits *exits);

/* The address of the function with an mcount site that covers an address; 0: none does. */
uint64_t function_exits_owner(const struct function_exits *exits, uint64_t address);

/* Indices of image->return_sites, and behind them of the text's slots. */
struct exit_range {
	size_t begin, end;
};

enum { FUNCTION_EXITS_MAX = 32 /* functions and parts that are looked into */ };

/* The slots of the function that begins at this (link-time) address, and `tails`: those of
 * functions that it tail-calls; returns how many ranges. */
size_t function_exits_find(const struct function_exits *exits, uint64_t function, bool tails,
			   struct exit_range out[FUNCTION_EXITS_MAX]);

/* Which of its returns pass slots of its own: all that are known of; not those after a jump to
 * another function, traced or not, or by a pointer; or none. */
enum function_returns { FUNCTION_RETURNS_ALL, FUNCTION_RETURNS_SOME, FUNCTION_RETURNS_NONE };
enum function_returns function_returns_of(const struct function_exits *exits, uint64_t function);

/* Whether each way out of it passes a slot: its own, or one of the functions that it tail-calls.
 * False of more than are looked into. */
bool function_returns_are_known(const struct function_exits *exits, uint64_t function);

/*
 * The functions that may be entered by a jump out of some others, by name: out of their tail calls,
 * and out of those of the functions in between. Whoever sees calls of these others only, takes none
 * for a tail call that cannot be one.
 */
struct function_tails;

/* Of no functions yet. Borrows `exits`. -ENOMEM. Destroying is NULL-safe. */
int function_tails_create(const struct function_exits *exits, struct function_tails **out,
			  struct error *err);
void function_tails_destroy(struct function_tails *tails);

/* One of the others begins at this (link-time) address. */
void function_tails_add(struct function_tails *tails, uint64_t function);
bool function_tails_has(const struct function_tails *tails, uint64_t function);
/* The next of them that has an mcount site; *cursor is 0 at first. 0: there are no more. */
uint64_t function_tails_next(const struct function_tails *tails, size_t *cursor);

#endif
