/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_ENGINE_ENGINE_H
#define SONDE_PATCHER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/counters.h"
#include "patcher/fetch/fetch.h"
#include "patcher/plan/inside-places.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/plan/shared-slots.h"
#include "patcher/plan/site-table.h"
#include "patcher/probe/gate.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/hist.h"
#include "patcher/ring/profile.h"
#include "patcher/text/function.h"
#include "patcher/text/traps.h"
#include "patcher/trampoline/ask.h"
#include "patcher/trampoline/trampoline.h"

/*
 * How hits at the places of a plan get from the guest to the tracers. Two engines:
 *
 *   traps   each place is a trap: the vCPU exits, and its thread makes the hit
 *   rings   each place with room is a jump to a trampoline, which writes a record into a ring of
 *           its vCPU; a thread of the engine empties the rings. All other places stay traps.
 *
 * A session starts with traps where the guest has them, and moves to rings as soon as the guest is
 * ready, in the middle of calls. Both engines exist side by side; one is installed at a time.
 *
 * To add one: embed struct engine first, implement the operations, and declare what creates it
 * below.
 */
struct engine {
	const struct engine_ops *ops;
};

/* Takes a hit to its tracer; `ref` is NULL at returns. Traps call it on vCPUs' threads, rings on
 * one thread in the order that struct ring_merge has; one thread at a time. */
typedef void engine_emit_fn(void *arg, const struct probe_ref *ref, enum probe_point point,
			    const struct probe_hit *hit);

/* What takes the records of a place without stack and items, in the same order; NULL: all are hits.
 */
typedef probe_take_fn *engine_taker_fn(const struct probe_ref *ref);

/* Takes some of the first records of a run, as long as each is alone (ring_is_alone()), in the same
 * order. Returns how many; 0: the first one is for a taker, or a hit. */
typedef size_t engine_take_run_fn(void *arg, const struct probe_run *run);

typedef void engine_settle_fn(void *arg);

struct trap_reader;
/*
 * The direct lane: each record is an event, which goes from the ring of a vCPU to that vCPU's
 * stream. An instance of a tracer on this lane wants records of some sites, or of some return
 * slots, or of both, each kind by a want of its own. Those of one owner share rings, so that its
 * events are in the order of time.
 */
enum { DIRECT_MAX = 32 /* wants at a time, those that are being left included */ };

struct direct_want {
	const void *owner;       /* who it is: the same as long as it goes on */
	enum probe_point point;  /* of all its places */
	unsigned int class;      /* of its events: the instance's number */
	uint32_t fields;         /* enum direct_field */
	const struct gate *gate; /* NULL: all calls */
	/* NULL: nothing. Else its values follow the struct function_event that the events begin
	 * with, and there is no frame and no result. */
	const struct fetch_program *fetch;
	/* Events are a struct syscall_event, of other classes the struct graph_event, or the struct
	 * function_event, that it begins with. All of these are used as long as direct_uses(). */
	const struct gate_rest *filter; /* NULL: all events */
	const struct event_output *output;
	struct event_sink *const *sinks; /* by vCPU */
	_Atomic uint64_t *records;       /* counts them, likewise */
	_Atomic uint64_t *lost; /* counts what its rings lose, which it may share; likewise. Once
				 * where wants have the same */
	/* Calls are counted there instead, which is used as long as direct_uses(). The want has no
	 * fields, filter or events, and takes a set of rings of its own. */
	struct profile *profile;
	enum count_action action;
	/* Or they are summed up there, as this program says, likewise. Wants of one owner share it;
	 * each has the filter that is its gate, and may fetch. */
	struct hist *hist;
	const struct hist_program *program;
};

/* Whether it takes a set of rings for something else than events. */
static inline bool direct_counts(const struct direct_want *want)
{
	return want->profile || want->hist;
}

/* All that is to be recorded from now on. */
struct direct_change {
	const struct direct_want *wants;
	size_t nr_wants;
	/* Bit i of a site's mask is wants[i]. Sites with a refusal are left alone. NULL, without
	 * wants: the direct lane goes on as it is. */
	const struct shared_sites *sites;
	/* Likewise of return slots; NULL: none are wanted, nor have been. */
	const struct shared_slots *slots;
	/* Likewise of instructions in the middle of functions; NULL: none are wanted, nor have
	 * been. */
	const struct inside_places *inside;
	/* Which of the plan's patches are off from then on: a result of patch_plan_find_off(), read
	 * by prepare() only. NULL: those that are. */
	const bool *off;
	/* What the plan's probes capture from then on; NULL: what they do now. After the commit
	 * the caller makes the traps do so, too, before the guest runs. */
	const struct probe_view *view;
	bool held;     /* the guest stands still while it is prepared */
	uint64_t bell; /* gva of a site that calls engine_config.bell first, wanted or not; 0: none.
			  For guests with port traps. */
	/* With wants as before: the direct lane goes on as it is in this text, where no site or
	 * slot of the change lies. Empty: there is none. */
	struct direct_kept {
		uint64_t begin, end; /* gvas */
	} kept;
};

/*
 * Functions of the guest that ask before they begin (trampoline/ask.h), and who answers. Their
 * questions come in as long as rings are installed, until the guest has left the memory; on a
 * thread of the engine, which does nothing else.
 */
enum { ENGINE_MAX_ASKS = 8 };

struct engine_ask {
	const char *function;
	struct displaced place;
	enum ask_wait wait;
	bool refuses;      /* if there is no answer in time, the function fails */
	bool many;         /* see struct ask_spec */
	uint32_t argument; /* ASK_SPIN; see struct ask_spec */
	unsigned int patience_ms;
};

struct engine_question {
	size_t ask;        /* which function */
	uint64_t number;   /* of this function's; of many tasks the last one's */
	uint64_t argument; /* unless they are many */
};

enum engine_answer { ANSWER_LATER, ANSWER_GO, ANSWER_REFUSE };

struct engine_asks {
	struct engine_ask v[ENGINE_MAX_ASKS];
	size_t n;
	uint64_t sleep; /* gva of the guest's msleep() */
	/* A function waits. It is asked again after ANSWER_LATER, until it gives up. May stop the
	 * guest, unless another thread holds it stopped: with *held set, at first false, the engine
	 * lets it go on when the answer is there. */
	enum engine_answer (*answer)(void *arg, const struct engine_question *question, bool *held);
	/* Since the last call for this function, a task has waited in vain, and has gone on. */
	void (*gave_up)(void *arg, size_t ask);
	/* Some times per second, whatever is asked. */
	void (*poll)(void *arg);
	void *arg;
};

/* What an engine works with: borrowed while it exists. */
struct engine_config {
	const struct kernel *kernel;
	struct patch_plan *plan;
	const struct trap_table *traps;
	struct decoder *decoder;
	struct trap_reader *reader; /* of the places that are traps */
	struct first_error *failure;
	engine_emit_fn *emit;
	engine_taker_fn *taker;       /* of records in rings; NULL: all are hits */
	engine_take_run_fn *take_run; /* likewise; NULL: none go in runs */
	/* As emit: the hits so far were those of a pass, or of a trap. NULL: nothing to do. */
	void (*emitted)(void *arg);
	/* On a vCPU's thread, which goes on when it returns: the vCPU has come to the bell. */
	void (*bell)(void *arg);
	void *arg; /* of all of these */
	/* rings: */
	const struct engine_asks *asks; /* read by install(); NULL: none */
	uint32_t ring_bytes;            /* per vCPU: a power of two, RING_MIN_DATA or more */
	bool drop;                      /* a full ring loses events; else the vCPU waits */
	/* Whose calls of the plan's probes are recorded; it may change, see pass_pids(). */
	const struct pid_gate *pids;
	const struct ring_stacks *stacks; /* that have open calls, as far as hits were taken */
};

/* What kind of trap was served. */
enum engine_trap {
	ENGINE_TRAP_FOREIGN, /* none of the engine's */
	ENGINE_TRAP_CALL,    /* a function was entered */
	ENGINE_TRAP_OTHER,
};

struct engine_ops {
	const char *name; /* the mode, in traces and replies */

	/*
	 * The guest is stopped, and no patch of the plan is applied. Lead all patches to this
	 * engine, and apply them. After an error none is applied, nothing of the engine is left in
	 * the guest, and the plan's patches are traps. -EAGAIN: the guest still boots.
	 * -ENOTRECOVERABLE: patches could not be taken back; the engine is installed, and
	 * withdraw() is due.
	 */
	int (*install)(struct engine *engine, struct error *err);

	/* On a vCPU's thread: serve its trap, and set where it continues. May wait for room. */
	enum engine_trap (*on_trap)(struct engine *engine, struct guest_trap *trap);

	/* On a vCPU's thread: a hit that the trap reader has made. It is emitted now, or in order
	 * with what trampolines write. May wait for room. */
	void (*submit)(struct engine *engine, const struct probe_ref *ref, enum probe_point point,
		       const struct probe_hit *hit);
	/*
	 * A call returns by a trap, or its return will not be recorded: take out the array that its
	 * entry trampoline has saved (ITEMS_SAVED), by the key of struct probe_hit. False: none was
	 * saved. words and skip are what the guest says.
	 */
	bool (*take_saved_array)(struct engine *engine, uint64_t key, uint64_t *words,
				 uint64_t *skip);

	/*
	 * Call `fn` between two hits, behind all that were made before now: at once, or later on
	 * the thread that emits hits, at the latest in finish() or end(). The guest may run. Not
	 * again until `fn` was called.
	 */
	void (*settle)(struct engine *engine, engine_settle_fn *fn, void *arg);

	/* The guest is stopped: read again what it may have changed while it started CPUs (its
	 * time stamp counters). False: no longer necessary. */
	bool (*refresh)(struct engine *engine);

	/*
	 * The guest, which is stopped, has taken CPUs on or off line: read their time stamp
	 * counters and numbers again. -EAGAIN: one is being started. Another error: what is
	 * recorded from now on cannot be put in order. NULL: that does not matter.
	 */
	int (*check_cpus)(struct engine *engine, struct error *err);

	/*
	 * The guest is stopped: put its own text back. An error leaves the engine installed, for
	 * another try. After 0 no vCPU enters the engine's code any more, but vCPUs and tasks may
	 * be inside until finish(). The outcome is added to *outcome, which may be NULL.
	 */
	int (*withdraw)(struct engine *engine, struct patch_outcome *outcome, struct error *err);
	/*
	 * The guest is not stopped by the caller: wait until it has left the engine's code, emit
	 * the last hits, and take everything away. 0 also if the engine was not installed. -EBUSY:
	 * the guest is still inside after ten seconds. -EINPROGRESS: it is paused. Call again later.
	 */
	int (*finish)(struct engine *engine, struct error *err);
	/*
	 * The guest will not run again, or cannot be stopped any more: put its text back where
	 * that is possible, emit what is there, and wait for nothing. In any state. Returns and
	 * *outcome as of withdraw().
	 */
	int (*end)(struct engine *engine, struct patch_outcome *outcome, struct error *err);

	/*
	 * The direct lane, and the plan's patches that come and go with it; NULL where there is
	 * none. First prepare() while the guest runs: makes rings and code. Then, with the guest
	 * stopped, commit(): one pass over the text, all of it or nothing. The plan's shared sites
	 * and others are those of the change from then on. discard() instead, and after a failed
	 * commit. One thread at a time.
	 *
	 * prepare(): -ENOSPC: too little memory for rings or code, too many instances.
	 * commit(): *switched is how many places of the text were written.
	 */
	int (*direct_prepare)(struct engine *engine, const struct direct_change *change,
			      struct error *err);
	int (*direct_commit)(struct engine *engine, size_t *switched, struct error *err);
	void (*direct_discard)(struct engine *engine);
	/* Whether records of this owner may still come. Any thread. */
	bool (*direct_uses)(struct engine *engine, const void *owner);

	/* With the guest stopped: functions that many tasks may be in ask from now on, as well.
	 * install() leaves them out. -EBUSY: a task may be where one would; try again later. NULL:
	 * none can. */
	int (*ask_many)(struct engine *engine, struct error *err);

	/*
	 * Installed: of which tasks calls are recorded is what engine_config.pids says from now on;
	 * install() has looked, too. Code that runs now may have asked before. The guest may run.
	 * False: calls of all tasks are recorded, now and later. NULL: likewise.
	 */
	bool (*pass_pids)(struct engine *engine);

	/* Events of the ordered lane that the engine has lost since creation; NULL: it loses none.
	 * Any thread. */
	uint64_t (*lost)(struct engine *engine);

	/* Add what was counted for a vCPU since creation. Any thread. */
	void (*counts)(struct engine *engine, unsigned int vcpu, struct trace_counters *sum);

	/* Frees. Not installed, or the guest will not run again. */
	void (*destroy)(struct engine *engine);
};

/* -ENOMEM. Destroying is NULL-safe. */
int trap_engine_create(const struct engine_config *config, struct engine **out, struct error *err);
int ring_engine_create(const struct engine_config *config, struct engine **out, struct error *err);
void engine_destroy(struct engine *engine);

#endif
