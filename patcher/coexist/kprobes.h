/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_COEXIST_KPROBES_H
#define SONDE_PATCHER_COEXIST_KPROBES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/text/traps.h"
#include "patcher/plan/patch-plan.h"

/*
 * Kprobes of the guest at an exit of a traced function. A kprobe copies the instruction and
 * executes the copy elsewhere. It must not copy a patch, which would then outlive the tracer. An
 * optimised kprobe is a jump, and may reach into a return slot from up to 4 bytes ahead.
 *
 * arch_prepare_kprobe(p) (arch/x86/kernel/kprobes/core.c) makes the copy, for one vCPU at a time,
 * as its callers hold kprobe_mutex. When it is entered for such an address, the slot gets its old
 * bytes back and is yielded to the guest until tracing starts anew. Kprobes at a function's mcount
 * site use ftrace (ftrace.h), but in kernels built without KPROBES_ON_FTRACE: there a site is
 * yielded likewise.
 */
struct kprobe_handoff {
	const struct kernel *kernel;
	struct patch_plan *plan;
	struct oneshots *oneshots;
	struct first_error *failure; /* set if a slot could not be yielded */
	uint32_t addr_offset;        /* in struct kprobe; valid with `given` */

	_Atomic bool *given; /* by the plan's returns: yielded */
	size_t nr_given;

	/* since creation */
	_Atomic uint64_t total;  /* patches that were yielded */
	_Atomic uint64_t yields; /* of any patch, again as well: rises after the patch is yielded */
};

/* With the guest stopped, before the plan's returns are applied: yield those that registered
 * kprobes reach (kprobe-table.h), and watch for further ones. Returns 0 for a kernel without
 * kprobes or without BTF of struct kprobe, and for a guest without traps, where the caller has to
 * learn of kprobes otherwise. oneshot_disarm_all() ends the watch.
 */
int kprobe_handoff_begin(struct kprobe_handoff *handoff, struct error *err);

/* Whether all kprobes are noticed: the kernel has none, or has the types that this takes. */
bool kprobe_handoff_sees_all(const struct kernel *kernel);

/* Whether a kprobe at this address may concern what the plan has in the text now. While the guest
 * runs, too. */
bool kprobe_handoff_reaches(const struct kprobe_handoff *handoff, uint64_t address);
/* With the guest stopped, which is about to make a kprobe at this address. In a guest with traps
 * this happens by itself. */
int kprobe_handoff_give(struct kprobe_handoff *handoff, uint64_t address, struct error *err);

/* Before the plan is destroyed. */
void kprobe_handoff_forget(struct kprobe_handoff *handoff);

/* The exits that are yielded now, as refusals; returns how many, at most one for each return of the
 * plan. Any thread. */
size_t kprobe_handoff_refusals(const struct kprobe_handoff *handoff, struct site_refusal *out);

#endif
