/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_EPILOGUE_H
#define SONDE_PATCHER_TEXT_EPILOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/guest/control.h"
#include "introspect/kernel/kernel.h"

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

/* Whether these bytes are known instructions, and whole ones. */
bool epilogue_is_known(const uint8_t *bytes, size_t size);

/*
 * Do to `regs` what these known instructions do. RIP and the flags stay. -EFAULT: the stack cannot
 * be read, and `regs` are as before.
 */
int epilogue_run(const uint8_t *bytes, size_t size, const struct kernel *kernel,
		 struct guest_regs *regs, struct error *err);

#endif
