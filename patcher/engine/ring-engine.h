/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_RING_ENGINE_H
#define SONDE_PATCHER_ENGINE_RING_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include "introspect/kernel/scratch-mapping.h"
#include "introspect/slab/slab.h"
#include "patcher/ring/merge.h"
#include "patcher/ring/status.h"
#include "patcher/trampoline/set.h"

/*
 * Exitless mode of a session: memory of ours in the guest kernel with trampolines and one ring per
 * vCPU, and a thread that takes the records out and hands them on in the order of their time
 * stamps. Traps that still happen are written into rings of the host's own and take the same way.
 */
struct exitless;

/* Someone to hand a hit to, on the draining thread. `ref` is NULL at returns. */
typedef void exitless_handle_fn(void *arg, const struct probe_ref *ref, enum ring_record_kind kind,
				const struct probe_hit *hit);

struct exitless_config {
	uint32_t ring_bytes; /* per vCPU: a power of two, RING_MIN_DATA or more */
	enum trampoline_full full;
	exitless_handle_fn *handle;
	void *arg;
};

/*
 * With the guest stopped: memory, mapping, trampolines, rings; and `plan`'s patches now are jumps
 * to the trampolines, for the caller to apply. Nothing of the guest's text is touched here.
 *
 * -EAGAIN early in boot: again later. Everything else means that the guest cannot have it, with the
 * reason; `plan` has its traps then.
 */
int exitless_create(const struct kernel *kernel, struct slab_view *slab, struct site_plan *plan,
		    const struct trap_table *traps, struct decoder *decoder,
		    const struct exitless_config *config, struct exitless **out, struct error *err);

/* Start draining. With the guest stopped, before it runs with the patches. */
int exitless_start(struct exitless *x, struct error *err);

/* Take the memory away at once, with the guest stopped: it has never run with the patches. Frees.
 */
void exitless_cancel(struct exitless *x);

/*
 * The patches are gone from the text, and the guest is stopped: from now on no vCPU can get into a
 * trampoline, but tasks may still be in one. The thread takes the memory away as soon as none is:
 * each vCPU was in user mode or halted since, so that no interrupt is being served in between, and
 * no task was preempted there. It stops the guest for moments to see that; a guest that somebody
 * else has paused can only be waited for.
 */
void exitless_leave(struct exitless *x);

/* Whether that is done, after waiting for it up to `ms`; then everything was handed on. Not while
 * the caller holds the guest stopped. */
bool exitless_has_left(struct exitless *x, unsigned int ms);

/* What it could not take away as it should; NULL = nothing. Once it has left. */
const struct error *exitless_leave_error(const struct exitless *x);

/* The guest will not run again, has been left, or cannot be stopped any more: hand on all there is
 * now, and stop draining. */
void exitless_end(struct exitless *x);

/* Frees. NULL-safe. */
void exitless_destroy(struct exitless *x);

/* A trap: of a trampoline whose ring is full, or has its doorbell armed. Waits. False: none of
 * ours. */
bool exitless_on_trap(struct exitless *x, struct guest_trap *trap);

/* Hand on what a trap saw, in its order. On the vCPU's thread; waits for room. False: it was
 * dropped. */
bool exitless_put(struct exitless *x, const struct probe_ref *ref, enum ring_record_kind kind,
		  const struct probe_hit *hit);

/*
 * What a call's entry trampoline has kept for its return, which is a trap: taken out of the table
 * that trampolines share. False: nothing. `key` as in struct probe_hit; the rest is what the guest
 * says.
 */
bool exitless_take_kept(struct exitless *x, uint64_t key, uint64_t *words, uint64_t *skip);

/* The guest may have written its TSCs: read how they run again. With the guest stopped. */
int exitless_read_clocks(struct exitless *x, struct error *err);

/* Since creation. */
void exitless_counts(struct exitless *x, unsigned int vcpu, struct ring_status *out);
/* How often an idle guest's next event woke the thread. */
uint64_t exitless_doorbells(const struct exitless *x);

#endif
