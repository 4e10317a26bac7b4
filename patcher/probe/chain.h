/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_CHAIN_H
#define SONDE_PATCHER_PROBE_CHAIN_H

#include "formats/event/event.h"
#include "patcher/probe/probe.h"

/* Call chains of what was copied of the guest's stacks. */

/* -ENOTSUP: the kernel cannot be unwound, and no chain can be recorded. Else the ORC tables of its
 * modules, if there are such tables, are wanted from now on. */
int chain_check(const struct kernel *kernel, struct error *err);

/*
 * The return addresses, as in an EVENT_STACK. A chain without memory is cut at once. `stack_bytes`
 * is the size of each task's stack. What the guest wrote may be anything, and is read once.
 */
void chain_unwind(const struct kernel *kernel, uint32_t stack_bytes,
		  const struct probe_chain *chain, uint64_t frames[EVENT_STACK_WORDS]);

#endif
