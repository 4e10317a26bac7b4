/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_FUNCTION_H
#define SONDE_PATCHER_TEXT_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "guest-symbols/insn/decoder.h"
#include "introspect/guest/control.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/site.h"

/* --- in front of a `ret` (epilogue.c) --------------------------------------------------------- */

/*
 * The instructions in front of a `ret`, by which a function leaves its frame. Where a `ret` has no
 * room for a patch, the patch covers some of these as well. A trampoline has a copy of them; for a
 * trap the host executes them.
 *
 * Known are those that read no memory but the stack, and do the same at any address: pop, leave,
 * lea of a register, additions to RSP, copies of registers, constants. Callers do not use the flags
 * that they leave.
 */
enum { EPILOGUE_MAX = 10 }; /* bytes: less than a jump, and in front an instruction of 7 */

struct epilogue {
	uint8_t size; /* 0: none */
	uint8_t bytes[EPILOGUE_MAX];
};

/* Whether these bytes are known instructions, and whole ones. */
bool epilogue_is_known(const uint8_t *bytes, size_t size);

/*
 * Do to `regs` what the instructions do, which are known. RIP and the flags stay. -EFAULT: the
 * stack cannot be read, and `regs` are as before.
 */
int epilogue_run(const struct epilogue *epilogue, const struct kernel *kernel,
		 struct guest_regs *regs, struct error *err);

/* --- functions (function.c) ------------------------------------------------------------------- */

/*
 * A function of the running kernel, decoded whole: by which instructions it can be left, and
 * whether its site is one instruction that no jump leads into.
 *
 * Exits in parts of the function that the compiler put elsewhere (fn.cold, fn.part.N) and in
 * functions that it tail-calls are exits of the function, too.
 */
enum { FUNCTION_MAX_EXITS = 64, FUNCTION_MAX_PARTS = 16, FUNCTION_MAX_SIZE = 65536 };

enum { EXIT_MAX_SIZE = EPILOGUE_MAX + 1 };

struct function_exit {
	uint64_t gva;
	struct slot slot;
	uint8_t bytes[EXIT_MAX_SIZE]; /* that stand there now, slot.size of them */
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
 * What a jump at `gva` covers: whole instructions, which code elsewhere may execute in their place
 * before it goes on behind them.
 */
enum { JUMP_SIZE = 5, DISPLACED_MAX = JUMP_SIZE - 1 + 15 };

struct displaced {
	uint64_t gva;
	uint8_t size;
	uint8_t bytes[DISPLACED_MAX];
};

/*
 * The instructions at `place` in the body at [gva, gva + size). Errors, with the address:
 *   -ENOTSUP  one of them cannot be executed elsewhere, or lies at the function's end; the kernel
 *             has an mcount site there, or rewrites it, or knows it by its address
 *   -EBUSY    a jump of the function leads between them, or a kprobe of the guest is there
 *   -EILSEQ, -E2BIG  as above
 */
int function_displace(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
		      uint64_t size, uint64_t place, struct displaced *out, struct error *err);

/*
 * Find every exit of the function at [gva, gva + size). With `epilogues`, one of a `ret` without
 * room for a jump begins in front of it where it can, with several instructions: a task may be
 * between them. Errors, with the address:
 *   -ENOTSUP  it can be left by an instruction that is no return slot (an indirect tail call, a
 *             `ret` without room)
 *   -EBUSY    another tracer left a trap behind, a kprobe of the guest is at an exit, or an INT3
 *             may hide one
 *   -E2BIG    over the caps above
 *   -EILSEQ   an instruction cannot be decoded
 */
int function_find_exits(const struct kernel *kernel, struct decoder *decoder, uint64_t gva,
			uint64_t size, bool epilogues, struct function *out, struct error *err);

/* --- return thunks (thunk.c) ------------------------------------------------------------------ */

/* gva of the thunk by which the kernel's functions return now, as the kernel says, or the jumps at
 * its return sites; 0: they return themselves. */
uint64_t function_return_thunk(const struct kernel *kernel);
/* Whether a jump to this gva, out of a function, is a return: `thunk` is what the above says. What
 * alternatives have not replaced yet is known by its name. */
bool function_is_return_thunk(const struct kernel *kernel, uint64_t thunk, uint64_t gva);

/* Whether code without an mcount site is one that very many functions leave by. Nothing may stand
 * there: each return of the guest would come to it. Reads all text. */
bool function_is_common_exit(const struct kernel *kernel, uint64_t gva);

/* --- frames (frame.c) ------------------------------------------------------------------------- */

/*
 * What orc_frame() knows of a kernel with ORC tables, for one without: the frame of the function at
 * the link address, as it is where the function calls others. It is the deepest that its pushes and
 * subtractions reach, so not that of a call with arguments on the stack, or in front of some of the
 * pushes. 0: unknown, as the frame is aligned, or an instruction cannot be decoded.
 */
uint64_t function_frame(const struct kernel_image *image, struct decoder *decoder, uint64_t link,
			uint64_t size);

#endif
