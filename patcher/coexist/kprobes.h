/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_KPROBES_H
#define SONDE_PATCHER_COEXIST_KPROBES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/oneshot.h"
#include "patcher/plan/patch-plan.h"

/*
 * A kprobe of the guest at an exit of a traced function. It copies what stands there and executes
 * the copy elsewhere: it must never get a patch of ours, which would outlive us. An optimised one
 * is a jump, and may reach into a return slot from up to 4 bytes ahead.
 *
 * arch_prepare_kprobe(p) (arch/x86/kernel/kprobes/core.c) makes the copy, for one vCPU at a time as
 * its callers hold kprobe_mutex. When it is entered for such an address, the slot gets its old
 * bytes back, and stays the guest's until tracing starts anew. Kprobes at a function's mcount site
 * do not come here: they are ftrace's (ftrace-yield.h).
 */
struct kprobe_handoff {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct oneshots *oneshots;
	struct first_error *failure; /* gets why a slot could not be given */
	uint32_t addr_offset;        /* in struct kprobe */

	_Atomic bool *given; /* by the plan's returns */
	size_t nr_given;
	_Atomic uint64_t total; /* since creation */
};

/* With the guest stopped, before the plan's returns are applied. A kernel without kprobes, or
 * whose struct kprobe is not known, is not watched; 0 then. The hooks go with oneshot_disarm_all().
 */
int kprobe_handoff_begin(struct kprobe_handoff *yield, struct error *err);

/* Before the plan goes. */
void kprobe_handoff_forget(struct kprobe_handoff *yield);

/* The exits that are the guest's now, as refusals; returns how many, at most one for each return of
 * the plan. Any thread. */
size_t kprobe_handoff_refusals(const struct kprobe_handoff *yield, struct site_refusal *out);

#endif
