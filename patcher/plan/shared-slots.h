/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PLAN_SHARED_SLOTS_H
#define SONDE_PATCHER_PLAN_SHARED_SLOTS_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "guest-symbols/functions/function-exits.h"
#include "introspect/kernel/kernel.h"
#include "introspect/kernel/modules.h"
#include "patcher/plan/patch-plan.h"
#include "patcher/plan/site-table.h"
#include "patcher/text/patch-set.h"

/* --- module-exits.c -------------------------------------------------------------------------- */

/* What was in the guest's lists; `complete` as in struct module_returns. */
struct module_slots_seen {
	size_t n;
	bool complete;
};

/*
 * By which return slots functions of the kernel and of its modules return: those of the image, and
 * those of each module's own list, whose functions' jumps are found in the guest's memory as it is
 * now. Functions of more than MODULE_EXITS_MAX_FUNCTION bytes, or behind the first
 * MODULE_EXITS_MAX_TEXT bytes of all, are taken for ones without jumps.
 */
enum { MODULE_EXITS_MAX_FUNCTION = 64 << 10, MODULE_EXITS_MAX_TEXT = 64 << 20 };

struct module_exits {
	struct address_list slots; /* of modules: sorted gvas, without the kernel's slide */
	struct module_slots_seen seen;
	struct function_exits *exits; /* slots of modules are numbered behind the image's */
};

/* `names`, `sites` and the sorted addresses of `kprobes` are of now. -ENOMEM. */
int module_exits_read(struct module_exits *exits, const struct kernel *kernel,
		      const struct kernel_names *names, const struct site_table *sites,
		      const struct address_list *kprobes, struct error *err);
/* Also of one that is zeroed. */
void module_exits_deinit(struct module_exits *exits);
/* Whether lists that were not complete may be now. */
bool module_slots_have_come(const struct module_slots_seen *seen, const struct kernel *kernel);

/* --- shared-slots.c -------------------------------------------------------------------------- */

/*
 * What the direct lane may do with each return slot of the kernel and its modules, and which
 * tracers want it. Only slots with room for a jump can be patched, and none of the kernel's
 * initialisation. A slot of a module is patched only if what stands there is a return: its list is
 * in the guest's memory, which may be damaged.
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
	struct budget *budget; /* of the guest: `v` is part of it */
	struct shared_slot
		*v;   /* by index of the image's return_sites, then of the modules' slots ... */
	size_t first; /* ... but for so many: 0, or all of the image */
	size_t n;
	struct patch_set present; /* the plan's slots that still are what the plan made of them */
};

/* What stands in the guest now, with the plan's patches in it; `modules` are the modules' slots;
 * without those of the image if there is `no_image`. -ENOMEM, and -EBUSY if the image's list is
 * damaged: slots overlap. */
int shared_slots_make(struct shared_slots *slots, const struct kernel *kernel,
		      const struct module_exits *modules, const struct patch_plan *plan,
		      bool no_image, struct error *err);
/* Also of one that is zeroed. */
void shared_slots_deinit(struct shared_slots *slots);

#endif
