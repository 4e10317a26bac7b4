/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_PATCH_PLAN_H
#define SONDE_PATCHER_PLAN_PATCH_PLAN_H

#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/probe/probe.h"
#include "patcher/text/insn.h"
#include "patcher/text/patch-set.h"
#include "patcher/text/traps.h"

/*
 * Where a session patches the guest: at the entry site of every probe and, for probes that want it,
 * at every return slot. These are two patch sets, because the guest itself rewrites the two kinds
 * of place at different moments of its boot. A third has the sites of the direct lane.
 *
 * A function that cannot be patched (a kprobe holds its site, an exit has no room) is refused with
 * a reason and left alone. All other functions are patched, or none.
 */
struct site_refusal {
	const char *function;
	uint64_t gva;
	char reason[160];
};

/* A reason that is too long is cut. */
struct site_refusal site_refuse(const char *function, uint64_t gva, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct patch_plan {
	struct patch_set entries;
	struct patch_set returns;
	/* Sites that only the direct lane records: empty but while rings are installed. None of
	 * them is among `entries`. */
	struct patch_set shared;
	const struct probe_ref *refs; /* of all probes, refused ones too; borrowed */
	size_t nr_refs;
	struct site_refusal *refused;
	size_t nr_refused, refused_capacity;
};

struct patch_request {
	const struct probe_ref *refs; /* must outlive the plan and the traps */
	size_t nr_refs;
	/* Whether the caller will know when the guest's own ftrace gives a site back. Then a site
	 * that ftrace holds is planned as yielded; else its function is refused. */
	bool ftrace_handoff;
};

/* Plan the probes from what stands in guest memory now, and register their traps. -ENOENT if every
 * function was refused (*err has the first reason). */
int patch_plan_make(struct patch_plan *plan, const struct patch_request *request,
		    const struct kernel *kernel, struct decoder *decoder, struct trap_table *traps,
		    struct error *err);
void patch_plan_deinit(struct patch_plan *plan);

/* With the guest stopped: all patches, or none. Errors as patch_set_apply(). */
int patch_plan_apply(struct patch_plan *plan, const struct kernel *kernel, struct error *err);

/* With the guest stopped: take back whatever is applied, as patch_set_revert(). */
int patch_plan_revert(struct patch_plan *plan, const struct kernel *kernel,
		      struct patch_outcome *outcome, struct error *err);

/* Make all patches traps again, after trampoline_set_make() made them jumps. None is applied. */
void patch_plan_use_traps(struct patch_plan *plan);

/* The guest has rewritten its sites (ftrace_init) or return slots (alternatives) while the set was
 * not applied: the old bytes are those that stand there now. -EBUSY if they are not what the guest
 * writes there. */
int patch_plan_refresh_entries(struct patch_plan *plan, const struct kernel *kernel,
			       struct error *err);
int patch_plan_refresh_returns(struct patch_plan *plan, const struct kernel *kernel,
			       struct trap_table *traps, struct error *err);

#endif
