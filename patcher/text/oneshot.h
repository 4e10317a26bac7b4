/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_ONESHOT_H
#define SONDE_PATCHER_TEXT_ONESHOT_H

#include <stddef.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/trap-table.h"

/*
 * One-shot traps at any instruction of the guest kernel. When a vCPU gets there, the two bytes are
 * put back, the hook's function is called, and the vCPU executes the instruction. For places that
 * are passed once (boot phases) or where a trap cannot stay.
 *
 * Only for the time when one vCPU runs, or where the guest lets one pass at a time: another one
 * could pass while the bytes are back.
 */
enum { ONESHOTS_MAX = 64 };

struct oneshots {
	const struct kernel *kernel;
	struct trap_table *traps;
	uint64_t armed[ONESHOTS_MAX]; /* gva, 0 = free */
};

/*
 * gva of the first instruction of a function that is not looked at by the kernel itself: behind an
 * ENDBR and its mcount site. 0 if there is no such function.
 */
uint64_t oneshot_place(const struct kernel *kernel, const char *function);

/* Arm; doing it twice is once. -EBUSY if another kind of trap is there, -ENOSPC over ONESHOTS_MAX.
 */
int oneshot_arm(struct oneshots *oneshots, uint64_t gva, oneshot_fn *fn, void *arg,
		struct error *err);

/* Put the original bytes back, if ours still stand, and forget the trap. */
void oneshot_disarm(struct oneshots *oneshots, uint64_t gva);
void oneshot_disarm_all(struct oneshots *oneshots);

/* A TRAP_ONESHOT was hit: with the guest stopped, disarm it and call its function. If somebody else
 * disarmed it before the guest could be stopped, the vCPU just goes on. */
void oneshot_fire(struct oneshots *oneshots, const struct trap *trap, const struct guest_trap *hit);

#endif
