/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_INSIDE_PLACES_H
#define SONDE_PATCHER_PLAN_INSIDE_PLACES_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/text/displace.h"
#include "patcher/text/patch-set.h"

/*
 * Instructions in the middle of functions that the direct lane records, and which tracers want
 * them. Only in the kernel's own text, which is never freed: not that of its initialisation.
 */
struct inside_place {
	struct patch patch; /* without new bytes; its old bytes are the guest's */
	struct displaced_insn insn;
	uint32_t mask;               /* who wants it: bits of the caller's choice */
	struct site_refusal refusal; /* without a reason: it can be recorded */
};

struct inside_places {
	struct inside_place *v;
	size_t n, room;
	struct patch_set present; /* the plan's that still are what the plan made of them */
};

/* The plan's that stand in the guest now. -ENOMEM. */
int inside_places_make(struct inside_places *places, const struct kernel *kernel,
		       struct patch_plan *plan, struct error *err);

/*
 * Look at the instruction at this gva, unless it is known already. *out is valid until the next
 * call. A place that cannot be recorded has a refusal. -ENOMEM.
 */
int inside_places_add(struct inside_places *places, const struct kernel *kernel,
		      const struct patch_plan *plan, struct decoder *decoder, uint64_t gva,
		      struct inside_place **out, struct error *err);

static inline bool inside_place_is_refused(const struct inside_place *place)
{
	return place->refusal.reason[0] != '\0';
}

/* Also of one that is zeroed. */
void inside_places_deinit(struct inside_places *places);

#endif
