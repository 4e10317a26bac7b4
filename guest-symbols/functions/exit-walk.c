/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exits of a function: its own, and those of what it jumps to. */
#include <errno.h>
#include <stdlib.h>
#include "guest-symbols/functions/exits-internal.h"

/* The jumps of a code; `base` is to be added to each. */
struct jumps {
	const uint32_t *v;
	size_t n, base;
};

static struct jumps jumps_of(const struct function_exits *exits, size_t index)
{
	const struct exit_code *code = exits_code(exits, index);
	const struct function_exits *owner = index < exits->nr_codes ? exits : exits->image;

	return (struct jumps){.v = owner->jumps ? owner->jumps + code->first_jump : NULL,
			      .n = code[1].first_jump - code->first_jump,
			      .base = owner == exits ? 0 : exits->nr_codes};
}

static size_t target_of(const struct jumps *jumps, size_t i)
{
	return jumps->base + (jumps->v[i] & ~(uint32_t)EXIT_JUMP_INSIDE);
}

/* --- exits of a function --------------------------------------------------------------------- */

/* Codes that are reached, in the order in which they are looked into. */
struct walk {
	const struct function_exits *exits;
	struct {
		size_t code;
		bool counts; /* its slots do */
	} steps[FUNCTION_EXITS_MAX];
	size_t n;
};

/* From code whose slots count, or do not: a part is like the function that it belongs to. */
static void reach(struct walk *walk, size_t index, bool from)
{
	const struct exit_code *code = exits_code(walk->exits, index);

	for (size_t i = 0; i < walk->n; i++)
		if (walk->steps[i].code == index)
			return;
	if (walk->n == FUNCTION_EXITS_MAX)
		return;
	walk->steps[walk->n].code = index;
	walk->steps[walk->n++].counts = code->has_site || (code->is_part && from);
}

static void reach_targets(struct walk *walk, size_t i, bool tails)
{
	const struct jumps jumps = jumps_of(walk->exits, walk->steps[i].code);

	for (size_t k = 0; k < jumps.n; k++) {
		const size_t to = target_of(&jumps, k);
		const struct exit_code *code = exits_code(walk->exits, to);

		if (tails || (code->is_part && !code->has_site))
			reach(walk, to, walk->steps[i].counts);
	}
}

/* Nowhere, unless a function with an mcount site begins there. */
static struct walk begin_at(const struct function_exits *exits, uint64_t function)
{
	struct walk walk = {.exits = exits};

	if (function && function_exits_owner(exits, function) == function)
		reach(&walk, exits_covering(exits, function), true);
	return walk;
}

size_t function_exits_find(const struct function_exits *exits, uint64_t function, bool tails,
			   struct exit_range out[FUNCTION_EXITS_MAX])
{
	struct walk walk = begin_at(exits, function);
	size_t n = 0;

	for (size_t i = 0; i < walk.n; i++) {
		const struct exit_code *code = exits_code(exits, walk.steps[i].code);

		reach_targets(&walk, i, tails);
		if (walk.steps[i].counts && code->slots.begin < code->slots.end)
			out[n++] = code->slots;
	}
	return n;
}

uint64_t function_exits_owner(const struct function_exits *exits, uint64_t address)
{
	const size_t index = exits_covering(exits, address);
	const struct exit_code *code = index == SIZE_MAX ? NULL : exits_code(exits, index);

	return code && code->has_site ? code->address : 0;
}

static bool has_step(const struct walk *walk, size_t index)
{
	size_t i = 0;

	while (i < walk->n && walk->steps[i].code != index)
		i++;
	return i < walk->n;
}

/* Whether a function, or a part of it, may jump to what is none of these: the walk has all of them.
 */
static bool leaves(const struct walk *walk)
{
	for (size_t i = 0; i < walk->n; i++) {
		const size_t index = walk->steps[i].code;
		const struct jumps jumps = jumps_of(walk->exits, index);

		if (exits_code(walk->exits, index)->hides)
			return true;
		for (size_t k = 0; k < jumps.n; k++)
			if (!has_step(walk, target_of(&jumps, k)))
				return true;
	}
	return false;
}

enum function_returns function_returns_of(const struct function_exits *exits, uint64_t function)
{
	struct walk walk = begin_at(exits, function);
	bool own = false;

	for (size_t i = 0; i < walk.n; i++) {
		const struct exit_code *code = exits_code(exits, walk.steps[i].code);

		reach_targets(&walk, i, false);
		own |= walk.steps[i].counts && code->slots.begin < code->slots.end;
	}
	if (!own)
		return FUNCTION_RETURNS_NONE;
	return leaves(&walk) ? FUNCTION_RETURNS_SOME : FUNCTION_RETURNS_ALL;
}

bool function_returns_are_known(const struct function_exits *exits, uint64_t function)
{
	struct walk walk = begin_at(exits, function);

	for (size_t i = 0; i < walk.n; i++) {
		reach_targets(&walk, i, true);
		if (!walk.steps[i].counts || walk.n == FUNCTION_EXITS_MAX ||
		    exits_code(exits, walk.steps[i].code)->hides)
			return false;
	}
	return walk.n;
}

/* --- tail calls ------------------------------------------------------------------------------ */

struct function_tails {
	const struct function_exits *exits;
	bool *reached;  /* by index of the codes */
	bool *entered;  /* likewise: at the first instruction */
	uint32_t *list; /* reached codes, in the order in which their jumps are followed */
	size_t n;
};

int function_tails_create(const struct function_exits *exits, struct function_tails **out,
			  struct error *err)
{
	struct function_tails *tails = calloc(1, sizeof(*tails));
	const size_t n = exits_count(exits);

	if (!tails)
		return error_set(err, ENOMEM, "out of memory");
	tails->exits = exits;
	tails->reached = calloc(n + 1, sizeof(*tails->reached));
	tails->entered = calloc(n + 1, sizeof(*tails->entered));
	tails->list = calloc(n + 1, sizeof(*tails->list));
	if (!tails->reached || !tails->entered || !tails->list) {
		function_tails_destroy(tails);
		return error_set(err, ENOMEM, "no memory for %zu functions", n);
	}
	*out = tails;
	return 0;
}

void function_tails_destroy(struct function_tails *tails)
{
	if (!tails)
		return;
	free(tails->reached);
	free(tails->entered);
	free(tails->list);
	free(tails);
}

static void follow(struct function_tails *tails, size_t from)
{
	const struct jumps jumps = jumps_of(tails->exits, from);

	for (size_t i = 0; i < jumps.n; i++) {
		const size_t to = target_of(&jumps, i);

		tails->entered[to] |= !(jumps.v[i] & EXIT_JUMP_INSIDE);
		if (tails->reached[to])
			continue;
		tails->reached[to] = true;
		tails->list[tails->n++] = (uint32_t)to;
	}
}

void function_tails_add(struct function_tails *tails, uint64_t function)
{
	const size_t code = exits_covering(tails->exits, function);
	size_t next = tails->n;

	if (code != SIZE_MAX)
		follow(tails, code);
	while (next < tails->n)
		follow(tails, tails->list[next++]);
}

bool function_tails_has(const struct function_tails *tails, uint64_t function)
{
	const size_t code = exits_covering(tails->exits, function);

	return code != SIZE_MAX && exits_code(tails->exits, code)->address == function &&
	       tails->entered[code];
}

uint64_t function_tails_next(const struct function_tails *tails, size_t *cursor)
{
	while (*cursor < tails->n) {
		const size_t code = tails->list[(*cursor)++];

		if (tails->entered[code] && exits_code(tails->exits, code)->has_site)
			return exits_code(tails->exits, code)->address;
	}
	return 0;
}
