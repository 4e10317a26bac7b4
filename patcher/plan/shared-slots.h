/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_SHARED_SLOTS_H
#define SONDE_PATCHER_PLAN_SHARED_SLOTS_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/text/patch-set.h"

/*
 * What the direct lane may do with each return slot of the kernel, and which tracers want it. Only
 * slots with room for a jump can be patched, in text that the kernel keeps: not those of its
 * initialisation, nor of modules.
 */
#define SHARED_NO_RETURN SIZE_MAX

struct shared_slot {
	struct patch patch; /* without new bytes; its old bytes are the guest's */
	uint64_t next;      /* gva of the thunk that the slot jumps to; 0: it returns */
	size_t exit;   /* index in the plan's returns of a probe's patch there, also of one that
			* is off; or SHARED_NO_RETURN */
	uint32_t mask; /* who wants it: bits of the caller's choice, at first 0 */
	bool usable;   /* it can be recorded */
};

struct shared_slots {
	struct shared_slot *v; /* by index of the image's return_sites */
	size_t n;
	struct patch_set present; /* the plan's slots that still are what the plan made of them */
};

/* What stands in the guest now, with the plan's patches in it. -ENOMEM, and -EBUSY if the image's
 * list is damaged: slots overlap. */
int shared_slots_make(struct shared_slots *slots, const struct kernel *kernel,
		      const struct patch_plan *plan, struct error *err);
/* Also of one that is zeroed. */
void shared_slots_deinit(struct shared_slots *slots);

#endif
