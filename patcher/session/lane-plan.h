/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_LANE_PLAN_H
#define SONDE_PATCHER_SESSION_LANE_PLAN_H

#include "guest-symbols/functions/function-exits.h"
#include "patcher/session/internal.h"

/*
 * A plan of the direct lane: what its instances want of all sites and return slots, or, as a part,
 * of those outside of the kernel's image. Modules come and go; what is wanted of the image's
 * functions does not change by that, unless the modules' functions lead into them.
 */
struct lane_plan {
	struct trace_session *session;
	struct instance_list *list;
	struct ordered_change *ordered; /* that of the plan's patches; NULL: they go on */
	bool part;
	bool lenient;  /* an instance that means no function is left out, as others were before */
	bool leads_in; /* functions of modules change what is wanted of the image's */
	struct site_table table;
	struct kernel_names *names;
	struct kprobe_table kprobes;
	struct shared_sites sites;
	struct module_exits exits;
	struct shared_slots slots;
	struct inside_places inside;
	bool *wanted; /* by site: of the instance that is looked at */
	struct direct_want wants[DIRECT_MAX];
	size_t nr_wants;
	struct session_instance *instances[TRACE_MAX_INSTANCES];
	size_t n;
	struct error unlearnt[TRACE_MAX_INSTANCES]; /* by instance: of `learn`; code 0: none */
	/* by instance: the results */
	size_t nr_sites[TRACE_MAX_INSTANCES], nr_outside[TRACE_MAX_INSTANCES]; /* of the image */
	struct site_refusals refused[TRACE_MAX_INSTANCES];
	bool *chosen[TRACE_MAX_INSTANCES]; /* by site */
	struct function_notes notes[TRACE_MAX_INSTANCES];
	struct error failures[TRACE_MAX_INSTANCES];        /* code 0: it is not left out */
	struct function_tails *tails[TRACE_MAX_INSTANCES]; /* session_instance.tails */
};

/* From what stands in the guest now. `session`, `list`, `ordered`, `part` and `lenient` are filled
 * in, all else is zero. */
int lane_plan_make(struct lane_plan *plan, struct error *err);
/* Also of one that was not made. */
void lane_plan_deinit(struct lane_plan *plan);

/* --- lane-plan-part.c ------------------------------------------------------------------------- */

/* Whether a plan of the modules may take the place of one of all, which was made before. */
bool lane_plan_may_be_part(const struct trace_session *session);
/*
 * A part becomes whole again: what is known of the image's sites comes out of the session. The
 * plan's sites and slots stay those of the modules. -EXDEV: the part does not do, and nothing has
 * changed.
 */
int lane_plan_join(struct lane_plan *plan, struct error *err);

/* --- lane-plan-keep.c ------------------------------------------------------------------------- */

/* The text does what the plan says: its results become the session's, and the instances'. */
void lane_plan_keep(struct lane_plan *plan, bool active);

#endif
