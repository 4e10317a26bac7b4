/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_RING_ENGINE_INTERNAL_H
#define SONDE_PATCHER_ENGINE_RING_ENGINE_INTERNAL_H

#include <time.h>
#include "formats/base/clock.h"
#include "introspect/tasks/quiesce.h"
#include "patcher/engine/ring-engine.h"

/* Shared by exitless.c (coming and going), exitless-drain.c (the thread) and exitless-traps.c (the
 * vCPUs' threads). */
struct ring_engine_vcpu {
	struct tsc_clock clock;      /* under lock */
	struct tsc_clock used_clock; /* in the pass that is made */
	_Atomic uint64_t lost;       /* written by nobody's ring: traps that found no room */
	_Atomic uint64_t blocked, blocked_ns;
	uint64_t cut_off;        /* records that were not complete when it ran last */
	struct ring_counts seen; /* of its ring, after the last pass; under lock */
};

struct ring_engine {
	struct ring_engine_config config;
	const struct kernel *kernel;
	struct guest *guest;
	unsigned int nr_vcpus;
	struct guest_region scratch; /* size 0: none */
	struct scratch_mapping mapping;
	bool mapped;
	uint64_t code_bytes; /* of the scratch memory; the rings are behind */
	struct trampoline_kernel facts;
	struct task_stacks tasks;
	struct quiesce quiesce; /* leaving */
	struct trampoline_set set;
	const struct probe_ref *refs; /* the plan's */

	struct ring *rings;                    /* the vCPUs', then those for their traps */
	uint8_t *trap_memory;                  /* of the latter */
	struct ring_saved_array *saved_arrays; /* the guest's table */
	struct ring_merge merge;
	struct ring_engine_vcpu *vcpus;
	uint64_t margin; /* ticks */

	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;   /* the thread: there is something to do */
	pthread_cond_t passed; /* waiting vCPUs: the thread has made a pass */
	bool rung, quit;       /* under lock */
	bool leaving, left;    /* under lock */
	_Atomic bool stopping; /* the thread stops the guest: nobody may wait for the thread */
	struct error left_error;
	unsigned int waiting; /* vCPUs; under lock */
	_Atomic bool asleep;  /* the thread waits for a ring's doorbell */
	_Atomic uint64_t doorbells;
	/* Host time in which the guest ran while a record waited, in steps of look_ns; when last
	 * looked. */
	uint64_t run_ns, look_ns, last_ns;
};

static inline struct ring *trap_ring(struct ring_engine *x, unsigned int vcpu)
{
	return &x->rings[x->nr_vcpus + vcpu];
}

/* A point of the host's monotonic time, `ns` after `now_ns`, to wait until. */
struct timespec ring_engine_deadline(uint64_t now_ns, uint64_t ns);

/* Wake the thread. */
void ring_engine_ring(struct ring_engine *x);

/* Hand on all there is at this moment; what a guest writes that still runs stays where it is. By
 * the thread, or without it, and for the last time. */
void ring_engine_drain_all(struct ring_engine *x);

/* With the guest stopped. Errors leave something of ours in the guest. */
int ring_engine_unmap(struct ring_engine *x, struct error *err);

/* exitless-leave.c: try to take the memory away; false: not yet. */
bool ring_engine_try_leave(struct ring_engine *x);

/* Does nothing if it does not run. */
void ring_engine_stop_thread(struct ring_engine *x);

#endif
