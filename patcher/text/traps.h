/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_TRAPS_H
#define SONDE_PATCHER_TEXT_TRAPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"
#include "introspect/guest/guest.h"
#include "introspect/kernel/kernel.h"
#include "patcher/probe/probe.h"
#include "patcher/text/function.h"

/* Why a vCPU executes the OUT, or reaches the break, at an address. */
enum trap_kind {
	TRAP_ENTRY,   /* it enters a probe's function: the handler moves it behind the site */
	TRAP_RETURN,  /* it leaves by a return slot: the handler returns for it, or moves it to the
		       * return thunk that the slot jumped to */
	TRAP_ONESHOT, /* the handler puts the original bytes back, which the vCPU then executes */
};

/* May set where the vCPU goes on, and its registers. */
typedef void oneshot_fn(void *arg, struct guest_trap *trap);

struct trap {
	uint64_t gva;
	enum trap_kind kind;
	const struct probe_ref *ref; /* TRAP_ENTRY */
	uint64_t thunk;              /* TRAP_RETURN: gva of the thunk, 0 = return */
	struct epilogue epilogue;    /* TRAP_RETURN: what the slot has in front of the `ret` */
	struct capture capture;      /* TRAP_RETURN: what all functions that end here want */
	oneshot_fn *fn;              /* TRAP_ONESHOT */
	void *arg;
	uint8_t original[GUEST_TRAP_SIZE]; /* TRAP_ONESHOT: the bytes to put back */
};

/*
 * Traps by address. Lookup takes no lock: the table changes only while no vCPU can be in a trap
 * handler (guest stopped), or on the only vCPU that runs.
 */
struct trap_table {
	struct u64_map by_gva; /* -> struct trap */
};

/* An empty one. */
void trap_table_init(struct trap_table *table);
void trap_table_deinit(struct trap_table *table);

/* Add or replace. What trap_table_find() returns is valid until the next put or remove. */
int trap_table_put(struct trap_table *table, const struct trap *trap, struct error *err);
void trap_table_remove(struct trap_table *table, uint64_t gva);
struct trap *trap_table_find(const struct trap_table *table, uint64_t gva);

/* --- one-shot traps -------------------------------------------------------------------------- */

/*
 * Traps at any instruction of the guest kernel. When a vCPU gets there, the handler puts the two
 * bytes back and calls the one-shot's function; then the vCPU executes the instruction. For places
 * that a vCPU passes once (boot phases), or where a trap cannot stay.
 *
 * Only while one vCPU runs, or where the guest lets one vCPU pass at a time: another vCPU could
 * pass while the original bytes stand there.
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

/* gva of the first instruction of a function that the kernel itself never changes: behind the
 * mcount site, or of one without a site behind the ENDBR, which may be sealed. 0 if there is no
 * such function. */
uint64_t oneshot_place(const struct kernel *kernel, const char *function);

/* Arm; arming twice is once. -EBUSY if another kind of trap is there, -ENOSPC over ONESHOTS_MAX. */
int oneshot_arm(struct oneshots *oneshots, uint64_t gva, oneshot_fn *fn, void *arg,
		struct error *err);

/* Put the original bytes back if the trap still stands there, and forget it. After an error it is
 * still armed, for another try. */
int oneshot_disarm(struct oneshots *oneshots, uint64_t gva, struct error *err);
int oneshot_disarm_all(struct oneshots *oneshots, struct error *err);

/* A vCPU hit a TRAP_ONESHOT: with the guest stopped, disarm it and call its function. If another
 * thread disarmed it before the guest was stopped, the vCPU just goes on. */
void oneshot_fire(struct oneshots *oneshots, const struct trap *trap, struct guest_trap *hit);

/* --- errors in trap handlers ----------------------------------------------------------------- */

/*
 * The first error of code that has no caller to return it to, such as a trap handler. Any thread
 * may set and read it. Zero-initialised it is empty; once set it stays as it is.
 */
struct first_error {
	_Atomic int state;
	struct error error;
};

void first_error_set(struct first_error *first, const struct error *err);

/* NULL if there is none (yet). */
const struct error *first_error_get(const struct first_error *first);

#endif
