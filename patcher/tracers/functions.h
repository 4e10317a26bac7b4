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
		     bool *wanted, struct function_notes *notes, struct error *err);
/* `check_image` of struct tracer_ops. */
int functions_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			  struct error *err);

/* Mark the sites of those in the list that the set means. `again`, `notes`: as in `select`. *n is
 * how many there are. Errors as function_set_resolve(), which say where in the spec. */
int functions_mark(struct function_set *set, const struct traceable_list *list,
		   const struct site_table *sites, bool again, bool *wanted, size_t *n,
		   struct function_notes *notes, struct error *err);
/* *any: whether the spec's patterns mean some of the list, or may mean some of a module later.
 * Errors likewise. */
int functions_resolve(const struct trace_spec *spec, const struct traceable_list *list, bool *any,
		      struct error *err);

/* The gate says yes only to one of these values of a source, ascending; to the spec's pids, if it
 * has some. -E2BIG. */
int functions_add_list(struct gate *gate, enum gate_source source, const uint64_t *values, size_t n,
		       struct error *err);
int functions_add_pids(struct gate *gate, const struct trace_spec *spec, struct error *err);

#endif
