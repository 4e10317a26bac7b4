/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_FTRACE_H
#define SONDE_PATCHER_COEXIST_FTRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/oneshot.h"
#include "patcher/plan/patch-plan.h"

/*
 * The guest has its own users of mcount sites: the function tracer, kprobes at a function's entry,
 * BPF trampolines, livepatch. They look at what stands at a site before they change it, and give up
 * with a warning if it is not what they left there.
 *
 * On x86 all of them change sites between ftrace_arch_code_modify_prepare() and
 * ftrace_arch_code_modify_post_process() (arch/x86/kernel/ftrace.c), and hold ftrace_lock from
 * before the one until after the other has returned (kernel/trace/ftrace.c): one vCPU at a time,
 * which is what hooks need. At the first, all entry sites get their old bytes back; when the second
 * has returned, those that are NOPs again are taken again, and the others are the guest's until the
 * next time. What is called at a site in the meantime is not seen, which is counted here.
 */
struct ftrace_handoff {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct oneshots *oneshots;
	struct first_error *failure; /* gets why the sites could not be given or taken */
	bool out; /* the guest is changing sites; changes with the guest stopped */

	/* Of each of the plan's entries: enum site_state of what stands there instead of our patch,
	 * SITE_NOP if that does. */
	_Atomic uint8_t *holders;
	size_t nr_holders;

	/* since creation */
	uint64_t since_ns;
	_Atomic uint64_t times;     /* that the guest has changed sites */
	_Atomic uint64_t out_ns;    /* in which no function was traced */
	_Atomic uint64_t functions; /* times that one was the guest's afterwards */
};

/* Stop the guest (introspect/guest/guest.h) at a moment at which it is not changing any sites.
 * -EAGAIN if none comes; on errors it runs. */
int ftrace_handoff_stop(const struct kernel *kernel, struct error *err);

/* Whether it will be known when the guest gives a site back. */
bool ftrace_handoff_is_possible(const struct kernel *kernel);

/*
 * With the guest stopped, before the plan's entries are applied: watch for changes. A kernel
 * without those functions has no ftrace; 0 then. The hooks go with oneshot_disarm_all(), after
 * which ftrace_handoff_end() is due.
 */
int ftrace_handoff_begin(struct ftrace_handoff *yield, struct error *err);

/* With the guest stopped. What was counted stays. */
void ftrace_handoff_end(struct ftrace_handoff *yield);

/* Before the plan goes: none of its functions is known to be the guest's. */
void ftrace_handoff_forget(struct ftrace_handoff *yield);

/* The functions that are the guest's now, as refusals; returns how many, at most one for each entry
 * of the plan. Any thread. */
size_t ftrace_handoff_refusals(const struct ftrace_handoff *yield, struct site_refusal *out);

#endif
