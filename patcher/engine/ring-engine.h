/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_RING_ENGINE_H
#define SONDE_PATCHER_ENGINE_RING_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include "formats/event/counters.h"
#include "introspect/kernel/scratch-mapping.h"
#include "patcher/ring/ring.h"
#include "patcher/trampoline/trampoline.h"

/*
 * Exitless mode of a session: memory of ours in the guest kernel with trampolines and one ring per
 * vCPU, and a thread that takes the records out and hands them on in the order of their time
 * stamps. Traps that still happen are written into rings of the host's own and take the same way.
 */
struct ring_engine;

/* Someone to hand a hit to, on the draining thread. `ref` is NULL at returns. */
typedef void ring_engine_handle_fn(void *arg, const struct probe_ref *ref, enum probe_point point,
				   const struct probe_hit *hit);

struct ring_engine_config {
	uint32_t ring_bytes; /* per vCPU: a power of two, RING_MIN_DATA or more */
	enum trampoline_full full;
	ring_engine_handle_fn *handle;
	void *arg;
};

/*
 * With the guest stopped: memory, mapping, trampolines, rings; and `plan`'s patches now are jumps
 * to the trampolines, for the caller to apply. Nothing of the guest's text is touched here.
 *
 * -EAGAIN early in boot: again later. Everything else means that the guest cannot have it, with the
 * reason; `plan` has its traps then.
 */
int ring_engine_create(const struct kernel *kernel, struct patch_plan *plan,
		       const struct trap_table *traps, struct decoder *decoder,
		       const struct ring_engine_config *config, struct ring_engine **out,
		       struct error *err);

/* Start draining. With the guest stopped, before it runs with the patches. */
int ring_engine_start(struct ring_engine *x, struct error *err);

/* Take the memory away at once, with the guest stopped: it has never run with the patches. Frees.
 */
void ring_engine_cancel(struct ring_engine *x);

/*
 * The patches are gone from the text, and the guest is stopped: from now on no vCPU can get into a
 * trampoline, but tasks may still be in one. The thread takes the memory away as soon as none is:
 * each vCPU was in user mode or halted since, so that no interrupt is being served in between, and
 * no task was preempted there. It stops the guest for moments to see that; a guest that somebody
 * else has paused can only be waited for.
 */
void ring_engine_leave(struct ring_engine *x);

/* Whether that is done, after waiting for it up to `ms`; then everything was handed on. Not while
 * the caller holds the guest stopped. */
bool ring_engine_has_left(struct ring_engine *x, unsigned int ms);

/* What it could not take away as it should; NULL = nothing. Once it has left. */
const struct error *ring_engine_leave_error(const struct ring_engine *x);

/* The guest will not run again, has been left, or cannot be stopped any more: hand on all there is
 * now, and stop draining. */
void ring_engine_end(struct ring_engine *x);

/* Frees. NULL-safe. */
void ring_engine_destroy(struct ring_engine *x);

/* A trap: of a trampoline whose ring is full, or has its doorbell armed. Waits. False: none of
 * ours. */
bool ring_engine_on_trap(struct ring_engine *x, struct guest_trap *trap);

/* Hand on what a trap saw, in its order. On the vCPU's thread; waits for room. False: it was
 * dropped. */
bool ring_engine_put(struct ring_engine *x, const struct probe_ref *ref, enum probe_point point,
		     const struct probe_hit *hit);

/*
 * What a call's entry trampoline has kept for its return, which is a trap: taken out of the table
 * that trampolines share. False: nothing. `key` as in struct probe_hit; the rest is what the guest
 * says.
 */
bool ring_engine_take_saved_array(struct ring_engine *x, uint64_t key, uint64_t *words,
				  uint64_t *skip);

/* The guest may have written its TSCs: read how they run again. With the guest stopped. */
int ring_engine_read_clocks(struct ring_engine *x, struct error *err);

/* Add what was counted for a vCPU since creation: the counters of rings. */
void ring_engine_counts(struct ring_engine *x, unsigned int vcpu, struct trace_counters *sum);
/* How often an idle guest's next event woke the thread. */
uint64_t ring_engine_doorbells(const struct ring_engine *x);

#endif
