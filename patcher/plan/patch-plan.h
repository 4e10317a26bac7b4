/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_PATCH_PLAN_H
#define SONDE_PATCHER_PLAN_PATCH_PLAN_H

#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/probe/probe.h"
#include "patcher/text/function.h"
#include "patcher/text/patch-set.h"
#include "patcher/text/traps.h"

/*
 * Where a session patches the guest: at the entry site of every probe and, for probes that want it,
 * at every return slot. These are two patch sets, because the guest itself rewrites the two kinds
 * of place at different moments of its boot. A third has the sites of the direct lane.
 *
 * A function that cannot be patched (a kprobe holds its site, an exit has no room) is refused with
 * a reason and left alone. All other functions are patched, or none.
 *
 * A plan is made for all probes of the tracers. Those that no instance wants are off: their patches
 * are ready, but not in the guest's text. So a change of instances only puts patches in and out.
 */
struct site_refusal {
	const char *function;
	uint64_t gva;
	uint32_t ref; /* of a probe: its id */
	char reason[160];
};

/* A list of them, which grows with the guest's functions: out of its budget. */
struct site_refusals {
	struct budget *budget; /* or NULL */
	struct site_refusal *v;
	size_t n, room;
};
/* 0 or -ENOMEM: the list is as before. */
int site_refusals_add(struct site_refusals *list, const struct site_refusal *refusal);
/* Also of one that is zeroed. */
void site_refusals_deinit(struct site_refusals *list);

/* A reason that is too long is cut. */
struct site_refusal site_refuse(const char *function, uint64_t gva, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A probe needs the patch at this address. */
struct plan_use {
	uint32_t ref;
	uint64_t gva;
};

struct patch_plan {
	struct patch_set entries;
	struct patch_set returns;
	/* Sites and return slots that only the direct lane records: empty but while rings are
	 * installed. None of them is in the text where one of `entries` or `returns` is. */
	struct patch_set shared, slots;
	/* Likewise instructions in the middle of functions. */
	struct patch_set inside;
	_Atomic bool has_others;      /* any of slots or inside. Any thread, while they change */
	const struct probe_ref *refs; /* of all probes, refused ones too; borrowed */
	size_t nr_refs;
	unsigned int view; /* the number of what traps capture (struct probe_view) */
	struct site_refusal *refused;
	size_t nr_refused, refused_capacity;
	struct plan_use *uses;
	size_t nr_uses, uses_capacity;
};

struct patch_request {
	const struct probe_ref *refs; /* must outlive the plan and the traps */
	size_t nr_refs;
	unsigned int view; /* that they capture now */
	/* Whether the caller will know when the guest's own ftrace gives a site back. Then a site
	 * that ftrace holds is planned as yielded; else its function is refused. */
	bool ftrace_handoff;
	/* The guest's tasks, which must outlive the plan. NULL: not known, so that no patch may
	 * cover several instructions. */
	const struct task_stacks *tasks;
};

/* Plan the probes from what stands in guest memory now, and register their traps. -ENOENT if every
 * function that is not off was refused (*err has the first reason). */
int patch_plan_make(struct patch_plan *plan, const struct patch_request *request,
		    const struct kernel *kernel, struct decoder *decoder, struct trap_table *traps,
		    struct error *err);
void patch_plan_deinit(struct patch_plan *plan);

/* With the guest stopped: all patches, or none. Errors as patch_set_apply(). */
int patch_plan_apply(struct patch_plan *plan, const struct kernel *kernel, struct error *err);

/* With the guest stopped: take back whatever is applied, as patch_set_revert(). */
int patch_plan_revert(struct patch_plan *plan, const struct kernel *kernel,
		      struct patch_outcome *outcome, struct error *err);

/*
 * Which patches are off if just those probes are that `off` says, by ref. The result is by index of
 * the entries, then of the returns.
 */
void patch_plan_find_off(const struct patch_plan *plan, const bool *off, bool *out);

/*
 * With the guest stopped: patches that are off from now on go out, and those that are not any more
 * come in. `off` is a result of patch_plan_find_off(). A set that is not applied stays so. After an
 * error all is as before. -ESTALE: the guest has changed the bytes of a place.
 */
int patch_plan_change(struct patch_plan *plan, const bool *off, const struct kernel *kernel,
		      struct error *err);
/* The patches are in and out already. */
void patch_plan_set_off(struct patch_plan *plan, const bool *off);

/* What all functions that end at this return slot capture, of probes that are like those of the
 * plan (struct probe_view). */
struct capture patch_plan_return_capture(const struct patch_plan *plan, uint64_t gva,
					 const struct probe *const *probes);
/* With the guest stopped: the plan's probes have this view from now on; its traps capture that. */
void patch_plan_set_view(struct patch_plan *plan, const struct trap_table *traps,
			 const struct probe_view *view);

/* Forget patches and refusals that are off. Nothing is applied. */
void patch_plan_drop_off(struct patch_plan *plan);

/* gva of the entry site that was planned for a probe; 0: it was refused. */
uint64_t patch_plan_site_of(const struct patch_plan *plan, uint32_t ref);
/* A probe that needs the patch at this address; UINT32_MAX: none does. */
uint32_t patch_plan_ref_at(const struct patch_plan *plan, uint64_t gva);

/* Whether all return slots have room for a jump: none of them has to stay a trap. */
bool patch_plan_has_room(const struct patch_plan *plan);

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
