/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_FUNCTIONS_H
#define SONDE_PATCHER_TRACERS_FUNCTIONS_H

#include "guest-symbols/functions/function-set.h"
#include "patcher/tracers/tracer.h"

/* What the tracers of functions share: which functions a spec means, and of which tasks. */
struct functions {
	const struct kernel *kernel;
	const struct trace_spec *spec;
	struct function_set *set;
};

/* Both are borrowed. -ENOMEM. */
int functions_init(struct functions *functions, const struct kernel *kernel,
		   const struct trace_spec *spec, struct error *err);
/* Also of one that is zeroed. */
void functions_deinit(struct functions *functions);

/* `select` of struct tracer_ops. */
int functions_select(const struct functions *functions, const struct site_table *sites, bool again,
		     bool *wanted, struct error *err);

/* Mark the sites of those in the list that the set means. `again`: as in `select`. *n is how many
 * there are. Errors as function_set_resolve(). */
int functions_mark(struct function_set *set, const struct traceable_list *list,
		   const struct site_table *sites, bool again, bool *wanted, size_t *n,
		   struct error *err);

/* The gate says yes only to one of these values of a source, ascending; to the spec's pids, if it
 * has some. -E2BIG. */
int functions_add_list(struct gate *gate, enum gate_source source, const uint64_t *values, size_t n,
		       struct error *err);
int functions_add_pids(struct gate *gate, const struct trace_spec *spec, struct error *err);

#endif
