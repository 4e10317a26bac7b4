/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_RING_INTERNAL_H
#define SONDE_PATCHER_ENGINE_RING_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include "formats/base/clock.h"
#include "introspect/kernel/scratch-mapping.h"
#include "introspect/tasks/quiesce.h"
#include "patcher/coexist/kprobe-table.h"
#include "patcher/engine/direct.h"
#include "patcher/engine/engine.h"
#include "patcher/ring/ring.h"
#include "patcher/trampoline/trampoline.h"

/*
 * Inside of the ring engine: ring-engine.c comes and goes, ring-memory.c makes what the guest sees
 * of it, ring-drain.c is its thread, ring-settle.c finds a place between two hits, ring-traps.c is
 * what vCPUs' threads do, ring-asks.c serves functions that ask; direct.h is the direct lane. Only
 * these and their tests include this.
 */

/*
 * A record that is not finished after this many polls, at each of which the guest ran, holds up no
 * writer that waits for room. That takes less time than any writer waits (ring_engine_late_ns()).
 */
enum { RING_LATE_POLLS = 2 };

/* Where writers poll, if the guest's watchdogs allow it: for a host that needs 2 ms to make room
 * and may have to wait for a CPU. Others wait for longer. */
enum { RING_SPIN_PATIENCE_NS = 500000000 };

/* Until a reservation is visible to the host. */
enum { RING_MARGIN_NS = 20000 };

struct ring_asks {
	size_t n;
	uint32_t code_bytes;   /* behind the trampolines, aligned */
	struct ask_box *boxes; /* in the guest's memory; NULL: there is none; under lock */
	struct patch_set jumps[ENGINE_MAX_ASKS]; /* one patch each */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool quit; /* under lock */
};

struct ring_engine_vcpu {
	struct tsc_clock clock;  /* under lock */
	uint64_t cut_off;        /* its records that were not complete when the guest ended */
	struct ring_counts seen; /* of its ring at the last pass; under lock */

	/* since creation */
	struct ring_counts past; /* of earlier installations; under lock */
	_Atomic uint64_t lost;   /* events that found no room, and are in no ring's counts */
	_Atomic uint64_t waits, wait_ns;
	_Atomic uint64_t doorbells;
};

/* engine_ops.settle. Once `pending` it is the thread's. */
struct ring_settle {
	_Atomic bool pending;
	engine_settle_fn *fn;
	void *arg;
	uint64_t *marks; /* by ring: the position that was reserved then */
	bool taken;      /* what was reserved is out of the rings ... */
	uint64_t due;    /* ... and has no later stamps */
};

struct ring_engine {
	struct engine engine;
	struct engine_config config;
	const struct kernel *kernel;
	struct guest *guest;
	unsigned int nr_vcpus;
	struct ring_engine_vcpu *vcpus;
	struct probe_cpu *cpus; /* of the vCPUs, in the present pass */

	/* From install() to finish(). */
	bool installed;
	uint32_t ring_bytes;
	enum trampoline_full full;
	bool has_pid_gate;
	struct guest_region scratch; /* size 0: none */
	struct scratch_mapping mapping; /* likewise */
	uint64_t code_bytes; /* of the scratch memory, in front of the rings */
	struct trampoline_kernel facts;
	struct task_stacks tasks;
	struct trampoline_set set;
	struct direct_lane direct;
	struct ring_asks asks;
	struct ring *rings;                    /* the vCPUs', then those for their traps */
	uint8_t *trap_memory;                  /* of the latter */
	struct ring_saved_array *saved_arrays; /* the guest's table */
	struct ring_merge merge;
	uint64_t copy[RING_MAX_RECORD / sizeof(uint64_t)]; /* the fields of a record */
	struct ring_settle settle;
	uint64_t margin;                 /* ticks */
	uint64_t stood_tsc, stood_since; /* the clock's last value, and since when, in ns */
	uint64_t passes; /* of the thread, over all installations */
	/* Events that vCPUs have skipped: of the ordered lane, then of the direct lane's groups. */
	_Atomic uint64_t skipped[1 + DIRECT_GROUPS];
	_Atomic uint64_t ring_losses; /* of the ordered lane's rings, since creation ... */
	uint64_t past_losses;         /* ... of these by earlier installations */
	bool ending;                  /* what is incomplete now is not lost */

	/* The thread. */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;    /* to the thread: there is something to do */
	pthread_cond_t passed;  /* to waiting vCPUs: the thread has made a pass */
	bool rung, quit;        /* under lock */
	bool leaving, left;     /* under lock */
	struct quiesce quiesce; /* while leaving */
	struct error inside;    /* what the last try to leave found; under lock */
	/* Kprobes of the guest that may have copied a jump; and one of them that is registered
	 * still, a gva, so that the memory stays. */
	struct kprobe_table copies;
	_Atomic uint64_t copied_by;
	_Atomic bool stopping; /* the thread stops the guest: no vCPU may wait for the thread */
	unsigned int waiting;  /* vCPUs; under lock */
	/* Under lock: until when all vCPUs together wait for room; 0: none waits. The thread clears
	 * it when it makes room. */
	uint64_t give_up_ns;
	_Atomic bool asleep;  /* the thread waits for a ring's doorbell */
	/* Host time in which the guest ran while a record was unfinished, in steps of poll_ns, or
	 * shorter ones; and when that was polled last. */
	uint64_t run_ns, poll_ns, polled_ns;
	/* The shortest time that writers have waited for room, and when the guest's watchdogs are
	 * asked again how long that may be. Of the thread. */
	uint64_t patience_ns, next_patience;
	uint64_t next_retire;   /* ns; when to try to free code of the direct lane ... */
	unsigned int retire_ms; /* ... and the time until the next try */
};

static inline struct ring_engine *ring_engine_of(struct engine *engine)
{
	return (struct ring_engine *)engine;
}

static inline struct ring *trap_ring(struct ring_engine *x, unsigned int vcpu)
{
	return &x->rings[x->nr_vcpus + vcpu];
}

/* --- ring-memory.c, all with the guest stopped ------------------------------------------------ */

/* Read how the vCPUs' time stamp counters run. -ENOTSUP if they differ. */
int ring_engine_read_clocks(struct ring_engine *x, struct error *err);
/* Memory in the guest, trampolines in it, rings; the plan's patches become jumps. After an error
 * the plan has its traps, and ring_engine_remove_memory() and ring_engine_free_memory() are due. */
int ring_engine_make_memory(struct ring_engine *x, struct error *err);
bool ring_engine_pass_pids(struct engine *engine); /* of struct engine_ops */
/* Unmap the memory and take it out of the guest. After an error some of it is left there. */
int ring_engine_remove_memory(struct ring_engine *x, struct error *err);
/* Who takes records of the trampoline set's places of a view, which is not open yet. */
void ring_engine_find_takers(struct ring_engine *x, size_t view_index);
/* Free the host's part. */
void ring_engine_free_memory(struct ring_engine *x);
/* The rings as trampolines address them: a group's of the direct lane, or -1: the ordered lane's.
 */
struct trampoline_rings ring_engine_rings(const struct ring_engine *x, int group);
/* How many ticks of vCPU 0's counter `ns` are. */
uint64_t ring_engine_ticks(const struct ring_engine *x, uint64_t ns);
/* Note what the ordered lane's rings have lost until now. By the thread, or without it. */
void ring_engine_note_losses(struct ring_engine *x);
/* What all rings of a vCPU have counted. By the thread, or without it. */
struct ring_counts ring_engine_counts(struct ring_engine *x, unsigned int vcpu);

/* --- ring-drain.c ----------------------------------------------------------------------------- */

int ring_engine_start_thread(struct ring_engine *x, struct error *err);
/* Waits until it has ended. Does nothing if it does not run. */
void ring_engine_stop_thread(struct ring_engine *x);
/* For how long a record that is unfinished holds up writers that wait for room: less than they
 * wait.
 */
uint64_t ring_engine_late_ns(const struct ring_engine *x);
/* Wake it. */
void ring_engine_wake(struct ring_engine *x);
/* Emit all records that are there now, and none that the guest writes later. By the thread, or
 * without it. */
void ring_engine_drain_all(struct ring_engine *x);
/* Whether the thread has taken the memory away, after waiting for it up to `ms`. */
bool ring_engine_has_left(struct ring_engine *x, unsigned int ms);
/* The time on the monotonic clock, `ns` after `now_ns`. */
struct timespec ring_engine_deadline(uint64_t now_ns, uint64_t ns);

/* --- ring-settle.c ---------------------------------------------------------------------------- */

void ring_engine_settle(struct engine *engine, engine_settle_fn *fn, void *arg);
bool ring_engine_is_settling(struct ring_engine *x);
/* By the thread, after a pass: call the function if it is time; or in any case. */
void ring_engine_try_settle(struct ring_engine *x);
void ring_engine_settle_now(struct ring_engine *x);

/* --- ring-asks.c ------------------------------------------------------------------------------ */

void asks_init(struct ring_engine *x);
void asks_deinit(struct ring_engine *x);
/* Choose the largest rings of the ordered lane, from ring_bytes down, that leave room for a group
 * of the direct lane, or if none do, the largest that fit. Returns the bytes of both lanes, which
 * may be more than `room`. */
uint64_t ring_engine_fit(struct ring_engine *x, uint64_t room);
/* -ENOSPC: they are too small for call chains. */
int ring_engine_check_chains(uint32_t ring_bytes, struct error *err);
/* Where the boxes are, from the beginning of the scratch memory. */
uint64_t asks_box_offset(const struct ring_engine *x);
/* With the guest stopped: code behind the trampolines. asks_free() is due, also after an error. */
int asks_make(struct ring_engine *x, struct error *err);
void asks_free(struct ring_engine *x);
/* With the guest stopped: from now on functions ask. After an error some may:
 * asks_restore() and asks_stop_thread() are due. */
int asks_begin(struct ring_engine *x, struct error *err);
/* Likewise, later: those that many tasks may be in. -EBUSY: one may be where the jump goes. */
int asks_begin_many(struct ring_engine *x, struct error *err);
/*
 * With the guest stopped: functions get their own bytes back. Unless `all`, those whose task sleeps
 * until an answer comes keep the jump, so that they begin only when the tracer has gone; call it
 * again.
 */
int asks_restore(struct ring_engine *x, bool all, struct patch_outcome *outcome, struct error *err);
/* Whether any function has its jump. */
bool asks_keep_jumps(const struct ring_engine *x);
/* The boxes are taken away. */
void asks_forget_boxes(struct ring_engine *x);
/* Without the guest stopped by the caller, or unless asks_begin() has succeeded. */
void asks_stop_thread(struct ring_engine *x);

/* --- ring-traps.c: operations of struct engine_ops -------------------------------------------- */

enum engine_trap ring_engine_on_trap(struct engine *engine, struct guest_trap *trap);
void ring_engine_submit(struct engine *engine, const struct probe_ref *ref, enum probe_point point,
			const struct probe_hit *hit);
bool ring_engine_take_saved_array(struct engine *engine, uint64_t key, uint64_t *words,
				  uint64_t *skip);

#endif
