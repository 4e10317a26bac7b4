/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_FTRACE_H
#define SONDE_PATCHER_COEXIST_FTRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/traps.h"
#include "patcher/plan/patch-plan.h"

/*
 * The guest has its own users of mcount sites: the function tracer, kprobes at a function's entry,
 * BPF trampolines, livepatch. Each checks the bytes at a site before it changes them, and gives up
 * with a warning if they are not its own.
 *
 * On x86 all of them change sites between ftrace_arch_code_modify_prepare() and
 * ftrace_arch_code_modify_post_process() (arch/x86/kernel/ftrace.c), and hold ftrace_lock from
 * before the one until after the other has returned (kernel/trace/ftrace.c). So one vCPU passes at
 * a time, as one-shot traps need it. When the first is entered, all entry sites get their old bytes
 * back. When the second has returned, sites that are NOPs are patched again; the others are yielded
 * to the guest until the next time. Calls in between are not seen; their time is counted here.
 */
struct ftrace_handoff {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct oneshots *oneshots;
	struct first_error *failure; /* set if the sites could not be reverted or patched */
	/* The guest is changing sites; changes with the guest stopped. */
	_Atomic bool out;
	_Atomic bool partly; /* while `out`: some sites could not be reverted */

	bool shared_out; /* while `out`: the direct lane's sites were patched */
	uint64_t fentry; /* gva of __fentry__() */

	/* since creation */
	uint64_t since_ns;
	_Atomic uint64_t times;     /* that the guest has changed sites */
	_Atomic uint64_t out_ns;    /* in which no function was traced */
	_Atomic uint64_t functions; /* times that a site was yielded afterwards */
};

/*
 * With the guest stopped: all sites get their old bytes back, or what ftrace has left as a NOP is
 * patched again. In a guest with traps this happens by itself. What has failed after an error can
 * be tried again.
 */
int ftrace_handoff_give(struct ftrace_handoff *handoff, struct error *err);
int ftrace_handoff_take(struct ftrace_handoff *handoff, struct error *err);
/* Whether the guest may go on: all sites have their old bytes. Any thread. */
bool ftrace_handoff_is_given(const struct ftrace_handoff *handoff);

/*
 * With the guest stopped, before the plan's entries are applied: watch for changes. Returns 0 for a
 * kernel without those functions, too: it has no ftrace; and for a guest without traps, where the
 * caller has to learn of changes otherwise. oneshot_disarm_all() ends the watch; call
 * ftrace_handoff_end() after it.
 */
int ftrace_handoff_begin(struct ftrace_handoff *handoff, struct error *err);

/* With the guest stopped. Keeps the counters. */
void ftrace_handoff_end(struct ftrace_handoff *handoff);

/* Whether a site of the plan is not a tracer's now, because of what stands there. Any thread. */
bool ftrace_site_is_held(const struct patch *patch);
/* That, as a refusal. */
struct site_refusal ftrace_site_refusal(const struct patch *patch);

/* The sites that are yielded now, as refusals; returns how many, at most one for each entry of the
 * plan. While the plan exists; any thread. */
size_t ftrace_handoff_refusals(const struct ftrace_handoff *handoff, struct site_refusal *out);

#endif
