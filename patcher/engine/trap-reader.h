/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_TRAP_READER_H
#define SONDE_PATCHER_ENGINE_TRAP_READER_H

#include <pthread.h>
#include "patcher/engine/engine.h"
#include "patcher/probe/call-table.h"

enum { TRAP_READER_VCPUS = 64 };

/*
 * Makes hits from the registers and memory of a vCPU in a trap, as its probe's capture asks, and
 * emulates the patched instruction. Several threads at once.
 */
struct trap_reader {
	const struct kernel *kernel;
	const struct patch_plan *plan;
	const struct trap_table *traps;
	struct oneshots *oneshots;
	struct live_counters *counters;
	pthread_mutex_t arrays_lock;
	struct call_table *arrays;                 /* of ITEMS_SAVED, until the return; locked */
	_Atomic uint64_t taken[TRAP_READER_VCPUS]; /* traps, by vCPU */
};

/* The caller has filled in the first five. -ENOMEM. */
int trap_reader_init(struct trap_reader *reader, struct error *err);
void trap_reader_deinit(struct trap_reader *reader);

/* Serve a trap of the trap table: submit its hits to `engine`, and set where the vCPU continues. */
enum engine_trap trap_reader_take(struct trap_reader *reader, struct engine *engine,
				  struct guest_trap *trap);

/* Make the hit of a call, or of a return, that was trapped at another place than its site or slot.
 * Leaves rip as it is. */
void trap_reader_entry(struct trap_reader *reader, struct engine *engine, uint64_t site,
		       const struct guest_trap *trap);
void trap_reader_return(struct trap_reader *reader, struct engine *engine,
			const struct guest_trap *trap);

/* Forget the array of the open call with this key, wherever it is saved. */
void trap_reader_drop_array(struct trap_reader *reader, struct engine *engine, uint64_t key);
/* Forget the arrays of open calls. */
void trap_reader_forget(struct trap_reader *reader);

#endif
