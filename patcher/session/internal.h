/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_INTERNAL_H
#define SONDE_PATCHER_SESSION_INTERNAL_H

#include <stdatomic.h>
#include <string.h>
#include "introspect/kernel/modules.h"
#include "patcher/coexist/boot-window.h"
#include "patcher/engine/ring-engine.h"
#include "patcher/coexist/ftrace.h"
#include "patcher/text/traps.h"
#include "patcher/text/insn.h"
#include "patcher/probe/probe.h"
#include "patcher/coexist/kprobes.h"
#include "patcher/session/sampler.h"
#include "patcher/probe/call-table.h"
#include "patcher/session/session.h"
#include "patcher/tracers/tracer.h"

/*
 * Inside of a trace session: trace-session.c starts and stops, session-status.c tells;
 * session-traps.c is what runs on the vCPUs' threads in between, session-events.c what becomes of
 * what they saw. Traps come first; in exitless mode trampolines take their places as soon as the
 * guest is ready for them.
 */
struct trace_session {
	struct guest *guest;
	const struct kernel_image *image;
	struct trace_writer *writer;
	struct kernel kernel;
	bool located;
	bool enabled;
	uint64_t starts;
	bool from_first_allocation;

	char specs[TRACE_MAX_TRACERS][TRACE_SPEC_MAX];
	struct tracer_set tracers;

	struct decoder *decoder;
	struct call_table *stash;
	struct call_table *saved_arrays; /* where calls that traps have seen have their arrays */
	struct trap_table traps;
	struct patch_plan plan;
	struct oneshots oneshots;
	struct boot_window boot;
	struct ftrace_handoff yield;
	struct kprobe_handoff kprobes;
	struct sampler sampler;
	struct site_refusal *refused; /* room to tell all refusals */
	struct first_error failure;
	struct patch_outcome restored;

	struct trace_options options;
	/* NULL: traps. Changes with the guest stopped, to NULL only where start and stop run. */
	struct ring_engine *_Atomic exitless;
	atomic_bool was_exitless;   /* the last start had it */
	atomic_bool switch_pending; /* exitless mode is wanted and not tried to the end */
	atomic_bool clocks_stale;   /* the guest may still write its TSCs */
	_Atomic uint64_t next_look; /* ns; when to see to either again */
	struct error no_exitless;   /* why the last start stays with traps; code 0: it does not. Not
				     * to be read while the switch is pending. */
	struct trace_counters past[TRACE_MAX_VCPUS]; /* of earlier starts */
	uint64_t past_doorbells;

	struct live_counters counters;
	_Atomic uint64_t traps_taken[TRACE_MAX_VCPUS];
	struct kernel_names *names;
};

/* Hand over what was seen at a trap: now, or in order with what the rings hold. `ref` may be NULL
 * at returns. */
void session_submit(struct trace_session *session, const struct probe_ref *ref,
		    enum probe_point point, const struct probe_hit *hit);

/* Give a hit to the tracer that it is for. `ref` is not used at returns. */
void session_dispatch(struct trace_session *session, const struct probe_ref *ref,
		      enum probe_point point, const struct probe_hit *hit);

/* ITEMS_SAVED and ITEMS_RETURNED (probe.h) for traps. */
void session_save_array(struct trace_session *session, const struct capture_items *items,
			const struct probe_hit *hit);
void session_saved_array(struct trace_session *session, struct probe_hit *hit,
			 struct object_iter *items);

/* Calls that have not returned will not be paired any more. */
void session_forget_open_calls(struct trace_session *session);

/* Plan what the tracers want, from what stands in guest memory now. */
int session_plan(struct trace_session *session, struct error *err);

/*
 * session-switch.c: between traps and trampolines. With the guest stopped and traps in place; 0
 * also if exitless mode is impossible, which is noted: the traps stay.
 */
int session_switch(struct trace_session *session, struct error *err);
/* For guests that have no traps: trampolines or nothing. With the guest stopped. */
int session_start_without_traps(struct trace_session *session, struct error *err);
/* After a trap was served, on the vCPU's thread: see whether the guest is ready now. */
void session_look_again(struct trace_session *session);
/* With the guest stopped and its text put back: leave its memory, which takes a while. */
void session_leave(struct trace_session *session);
/* With the guest not stopped by the caller: wait until that is done. -EBUSY if it takes too long,
 * or somebody has paused the guest; then it goes on. */
int session_finish_leaving(struct trace_session *session, struct error *err);
/* The guest will not run again: nothing has to be left. */
void session_end(struct trace_session *session);
void session_exitless_counts(const struct trace_session *session, unsigned int vcpu,
			     struct trace_counters *out);

/* session-sample.c: after a trap was served: whether there were too many of them. */
void session_sample(struct trace_session *session, enum trap_kind kind);
/* There were no traps for some time up to now. */
void session_gap(struct trace_session *session, uint64_t ns);

/* The trap handler (guest_trap_fn); arg is the session. */
bool session_on_trap(void *arg, struct guest_trap *trap);

/* Events that the boot window caught elsewhere than at their trap; arg is the session. */
void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap);
void session_boot_return(void *arg, const struct guest_trap *trap);

#endif
