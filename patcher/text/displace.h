/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_DISPLACE_H
#define SONDE_PATCHER_TEXT_DISPLACE_H

#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/function.h"

/*
 * Instructions in the middle of functions that a jump can replace, while other code executes them
 * in their place and goes on behind them. Those of at least JUMP_SIZE bytes only: so no task, and
 * no jump, is ever between two instructions that a jump covers.
 */
enum { INSN_MAX_SIZE = 15 };

struct displaced_insn {
	uint64_t gva;
	uint64_t target; /* of a direct jump or call */
	uint8_t size;    /* JUMP_SIZE..INSN_MAX_SIZE */
	uint8_t kind;    /* enum insn_kind: _OTHER, _CALL_REL, _JMP_REL or _JCC_REL */
	uint8_t rip_at;  /* as in struct insn */
	uint8_t bytes[INSN_MAX_SIZE];
};

/* A function of a running kernel, with the bytes that stand there but for the tracer's own. */
struct displace_body {
	const struct kernel *kernel;
	const char *name;
	uint64_t gva;
	size_t size; /* FUNCTION_MAX_SIZE or less */
	const uint8_t *bytes;
};

/*
 * The instruction at `place`, if a jump can replace it. Errors, with the address and what to do:
 *   -EINVAL   no instruction begins there
 *   -ENOTSUP  it is too short, it cannot be executed elsewhere, or the kernel relies on its place
 *   -EBUSY    a kprobe of the guest, or a trap of the tracer's own, is in the function
 *   -EILSEQ   the function cannot be decoded
 *   -E2BIG    it is too large
 *   and those of reserved_text_of()
 */
int displace_find(const struct displace_body *body, struct decoder *decoder, uint64_t place,
		  struct displaced_insn *out, struct error *err);

/* The instruction of which these are the bytes: one that a jump has replaced already. -EILSEQ. */
int displaced_decode(struct decoder *decoder, const uint8_t *bytes, size_t size, uint64_t gva,
		     struct displaced_insn *out, struct error *err);

/*
 * The instruction as it is to be at `gva`, where it does the same, but for calls. bytes[] has room
 * for INSN_MAX_SIZE; returns how many. -ERANGE: something is too far from there.
 */
int displaced_relocate(const struct displaced_insn *insn, uint64_t gva, uint8_t *bytes,
		       struct error *err);

#endif
