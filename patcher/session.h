/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_H
#define SONDE_PATCHER_SESSION_H

#include <stdatomic.h>
#include <string.h>
#include "introspect/modules.h"
#include "patcher/boot-window.h"
#include "patcher/hooks.h"
#include "patcher/insn.h"
#include "patcher/stash.h"
#include "patcher/trace-session.h"
#include "patcher/tracer.h"
#include "patcher/trap-table.h"

/*
 * Inside of a trace session: trace-session.c starts, stops and tells; session-traps.c is what runs
 * on the vCPUs' threads in between, session-events.c what becomes of what they saw. Traps come
 * first; in exitless mode trampolines take their places as soon as the guest is ready for them.
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
	struct tracer *tracers[TRACE_MAX_TRACERS];
	size_t nr_tracers;

	struct decoder *decoder;
	struct slab_view *slab;
	struct stash *stash;
	struct stash *noted; /* arguments of calls that are seen by traps, for their returns */
	struct trap_table traps;
	struct site_plan plan;
	struct hooks hooks;
	struct boot_window boot;
	struct first_error failure;
	struct patch_outcome restored;

	struct trace_counters counters;
	uint64_t in_flight;
	_Atomic uint64_t traps_taken[TRACE_MAX_VCPUS];
	struct kernel_names *names;
};

/* Hand over what was seen at a trap: now, or in order with what the rings hold. `ref` may be NULL at
 * returns. */
void session_deliver(struct trace_session *session, const struct probe_ref *ref,
		     enum ring_record_kind kind, const struct probe_hit *hit);

/* Give a hit to the tracer that it is for. `ref` is not used at returns. */
void session_handle(struct trace_session *session, const struct probe_ref *ref,
		    enum ring_record_kind kind, const struct probe_hit *hit);

/* Keep the arguments of a call for its return; get them back into hit->args, NULL if there are
 * none. */
void session_note_call(struct trace_session *session, const struct probe_ref *ref,
		       const struct probe_hit *hit);
const struct probe_ref *session_noted_call(struct trace_session *session, struct probe_hit *hit);

/* The trap handler (guest_trap_fn); arg is the session. */
bool session_on_trap(void *arg, struct guest_trap *trap);

/* Events that the boot window caught elsewhere than at their trap; arg is the session. */
void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap);
void session_boot_return(void *arg, const struct guest_trap *trap);

#endif
