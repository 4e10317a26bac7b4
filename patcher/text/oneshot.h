/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_ONESHOT_H
#define SONDE_PATCHER_TEXT_ONESHOT_H

#include <stdatomic.h>
#include <stddef.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/trap-table.h"

/*
 * One-shot traps at any instruction of the guest kernel. When a vCPU gets there, the two bytes are
 * put back, the one-shot's function is called, and the vCPU executes the instruction. For places
 * that are passed once (boot phases) or where a trap cannot stay.
 *
 * Only while one vCPU runs, or where the guest lets one vCPU pass at a time: another one could pass
 * while the original bytes stand there.
 */
enum { ONESHOTS_MAX = 1 << 17 }; /* armed at a time: some are at addresses that the guest chose */

struct oneshots {
	const struct kernel *kernel;
	struct trap_table *traps;
	struct u64_map armed; /* gvas */
};

/* None armed. `kernel` and `traps` are borrowed. */
void oneshot_init(struct oneshots *oneshots, const struct kernel *kernel, struct trap_table *traps);
/* Forgets those that are armed, and leaves the guest alone. Also of what is zeroed. */
void oneshot_deinit(struct oneshots *oneshots);

/* gva of the first instruction of a function that the kernel itself never changes: behind an ENDBR
 * and the mcount site. 0 if there is no such function. */
uint64_t oneshot_place(const struct kernel *kernel, const char *function);

/* Arm; doing it twice is once. -EBUSY if another kind of trap is there, -ENOSPC over ONESHOTS_MAX.
 */
int oneshot_arm(struct oneshots *oneshots, uint64_t gva, oneshot_fn *fn, void *arg,
		struct error *err);

/* Put the original bytes back, if ours still stand, and forget the trap. */
void oneshot_disarm(struct oneshots *oneshots, uint64_t gva);
void oneshot_disarm_all(struct oneshots *oneshots);

/* A vCPU hit a TRAP_ONESHOT: with the guest stopped, disarm it and call its function. If it was
 * disarmed before the guest could be stopped, the vCPU just goes on. */
void oneshot_fire(struct oneshots *oneshots, const struct trap *trap, const struct guest_trap *hit);

/* --- errors where no caller waits for an answer ---------------------------------------------- */

/*
 * The first error of functions that nobody waits for, in a trap handler for instance. Set and read
 * by any thread; zero-initialised it is empty; once set it stays as it is.
 */
struct first_error {
	_Atomic int state; /* enum first_error_state */
	struct error error;
};

void first_error_set(struct first_error *first, const struct error *err);

/* NULL if there is none (yet). */
const struct error *first_error_get(const struct first_error *first);

#endif
