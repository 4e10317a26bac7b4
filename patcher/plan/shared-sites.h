/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_SHARED_SITES_H
#define SONDE_PATCHER_PLAN_SHARED_SITES_H

#include "patcher/plan/patch-plan.h"
#include "patcher/plan/site-table.h"

/*
 * What the direct lane may do with each site of a table, and which tracers want it. A site that a
 * probe holds is recorded by the probe's own trampoline.
 */
#define SHARED_NO_ENTRY SIZE_MAX

struct shared_site {
	struct patch patch; /* without new bytes; its old bytes are the guest's */
	size_t entry;       /* index in the plan's entries of the probe there, or SHARED_NO_ENTRY */
	uint32_t mask;      /* who wants it: bits of the caller's choice, at first 0 */
	const char *refusal; /* why it cannot be recorded; NULL: it can */
};

struct shared_sites {
	struct shared_site *v; /* by index of the table's sites */
	size_t n;
	/* The plan's shared sites that still are what the plan made of them: a module may be gone,
	 * or may have been loaded again. */
	struct patch_set present;
};

/* `table` is what stands in the guest now, with the plan's patches in it. -ENOMEM. */
int shared_sites_make(struct shared_sites *sites, const struct site_table *table,
		      const struct patch_plan *plan, bool ftrace_handoff, struct error *err);
/* Also of one that is zeroed. */
void shared_sites_deinit(struct shared_sites *sites);

#endif
