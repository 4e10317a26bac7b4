/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_TRAP_READER_H
#define SONDE_PATCHER_ENGINE_TRAP_READER_H

#include <pthread.h>
#include "patcher/engine/engine.h"
#include "patcher/probe/call-table.h"

enum { TRAP_READER_VCPUS = 64 };

/*
 * Makes hits of what a vCPU in a trap has in its registers and memory, as its probe's capture asks
 * for, and does for the vCPU what the patched instruction would have done. Several threads at once.
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

/* A trap: if it is one of the trap table, submit its hits to `engine` and set where the vCPU
 * continues. */
enum engine_trap trap_reader_take(struct trap_reader *reader, struct engine *engine,
				  struct guest_trap *trap);

/* A call, or a return, that was trapped elsewhere than at its site or slot. rip is not changed. */
void trap_reader_entry(struct trap_reader *reader, struct engine *engine, uint64_t site,
		       const struct guest_trap *trap);
void trap_reader_return(struct trap_reader *reader, struct engine *engine,
			const struct guest_trap *trap);

/* Open calls will not be paired with their returns any more. */
void trap_reader_forget(struct trap_reader *reader);

#endif
