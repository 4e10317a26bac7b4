/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_FUNCTION_H
#define SONDE_PATCHER_TEXT_FUNCTION_H

#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/insn.h"
#include "patcher/text/site.h"

/*
 * A function of the running kernel, decoded whole: where it can be left, and whether the places we
 * want to patch are instructions of their own that nothing jumps into.
 *
 * Exits in parts of the function that the compiler put elsewhere (fn.cold, fn.part.N) and in
 * functions it tail-calls belong to it.
 */
enum { FUNCTION_MAX_EXITS = 64, FUNCTION_MAX_PARTS = 16, FUNCTION_MAX_SIZE = 65536 };

struct function_exit {
	uint64_t gva;
	struct slot slot;
	uint8_t bytes[SLOT_MAX_SIZE]; /* what stands there now, slot.size bytes */
};

struct function_part {
	uint64_t gva, size;
};

struct function {
	struct function_part parts[FUNCTION_MAX_PARTS]; /* [0] is the function itself */
	unsigned int nr_parts;
	struct function_exit exits[FUNCTION_MAX_EXITS];
	unsigned int nr_exits;
};

/*
 * Decode the body at [gva, gva + size) and confirm that `site` is one whole 5-byte
 * instruction in it. -EILSEQ undecodable, -EBUSY the site is not an instruction boundary or is
 * jumped into, each with the address.
 */
int function_check_site(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, uint64_t site, struct error *err);

/*
 * Find every exit of the function at [gva, gva + size). -ENOTSUP if it can be left in a way that
 * has no return slot (indirect tail call, a `ret` with no room), -EBUSY where a trap was left
 * behind, -E2BIG over the caps above, -EILSEQ undecodable, with the address.
 */
int function_find_exits(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, struct function *out, struct error *err);

#endif
