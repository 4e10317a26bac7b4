/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_FUNCTION_H
#define SONDE_PATCHER_TEXT_FUNCTION_H

#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/insn.h"
#include "patcher/text/site.h"

/*
 * A function of the running kernel, decoded whole: by which instructions it can be left, and
 * whether its site is one instruction that no jump leads into.
 *
 * Exits in parts of the function that the compiler put elsewhere (fn.cold, fn.part.N) and in
 * functions that it tail-calls are exits of the function, too.
 */
enum { FUNCTION_MAX_EXITS = 64, FUNCTION_MAX_PARTS = 16, FUNCTION_MAX_SIZE = 65536 };

struct function_exit {
	uint64_t gva;
	struct slot slot;
	uint8_t bytes[SLOT_MAX_SIZE]; /* that stand there now, slot.size of them */
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
 * Decode the body at [gva, gva + size) and confirm that `site` is one whole 5-byte instruction in
 * it. Errors, with the address:
 *   -EILSEQ  an instruction cannot be decoded
 *   -EBUSY   the site is not one instruction, or a jump leads into it
 *   -E2BIG   larger than FUNCTION_MAX_SIZE
 */
int function_check_site(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, uint64_t site, struct error *err);

/*
 * Find every exit of the function at [gva, gva + size). Errors, with the address:
 *   -ENOTSUP  it can be left by an instruction that is no return slot (an indirect tail call, a
 *             `ret` without room)
 *   -EBUSY    another tracer left a trap behind
 *   -E2BIG    over the caps above
 *   -EILSEQ   an instruction cannot be decoded
 */
int function_find_exits(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, struct function *out, struct error *err);

#endif
