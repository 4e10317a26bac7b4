/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_BODY_H
#define SONDE_PATCHER_TEXT_BODY_H

#include "patcher/text/function.h"

/*
 * The bytes of a function of a running kernel, instruction by instruction. They are those of its
 * own instructions, also where armed kprobes of the guest hide these.
 */
struct body {
	uint64_t gva;
	size_t size;       /* of the function */
	size_t bytes_size; /* with padding */
	uint8_t *bytes;
	uint8_t *now; /* likewise, what stands there */
};

/* -E2BIG: larger than FUNCTION_MAX_SIZE, or empty. -EFAULT, -ENOMEM. */
int body_read(const struct kernel *kernel, uint64_t gva, uint64_t size, struct body *body,
	      struct error *err);
void body_free(struct body *body);

/* -EBUSY: one of these bytes is hidden by a kprobe, so that a patch there would destroy it. */
int body_check_shown(const struct body *body, uint64_t gva, size_t size, struct error *err);

/* Call `fn` for each instruction, until it returns an error. -EILSEQ: one cannot be decoded. */
typedef int body_fn(void *arg, const struct body *body, const struct insn *insn, struct error *err);
int body_for_each(const struct body *body, struct decoder *decoder, body_fn *fn, void *arg,
		  struct error *err);

/*
 * Whether an instruction of the code at `gva` shows that an INT3 hides another one, as that of a
 * breakpoint does which guest_kprobes_restore() does not know: it is an INT3 that a vCPU would come
 * to, or a jump that leads to one. Compilers and the kernel fill up with INT3 where none comes to:
 * behind jumps and returns, and behind calls that do not return. In an image that was read from
 * memory, one behind a call counts as such. `before` is the instruction in front; NULL: there is
 * none.
 */
bool body_shows_hidden(const struct kernel *kernel, uint64_t gva, const uint8_t *bytes, size_t size,
		       const struct insn *insn, const struct insn *before);

/* Whether an address lies behind the first of these bytes: a jump may lead to that one only. */
static inline bool body_is_inside(uint64_t address, uint64_t start, uint64_t size)
{
	return address > start && address < start + size;
}

#endif
