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

/* The gate says yes only to the spec's pids and vCPUs, if it has some; and to what another says yes
 * to, which the spec's condition was made into. -E2BIG, with the column in the spec. */
int functions_add_pids(struct gate *gate, const struct trace_spec *spec, struct error *err);
int functions_add_vcpus(struct gate *gate, const struct trace_spec *spec, struct error *err);
int functions_add_condition(struct gate *gate, const struct trace_spec *spec,
			    const struct gate *condition, struct error *err);
/* Whether a gate has room for the spec's pids and vCPUs: errors likewise. */
int functions_check_numbers(const struct trace_spec *spec, struct error *err);

/*
 * Conditions of tracers that see a call and its return, whose events (or those that one could have)
 * are of `class`. Entry and return have the same gate: it can ask for pid, tgid and parent_ip
 * (those that the class has), which do not change during a call. -ENOTSUP with the column in the
 * spec if the condition asks for more, or has more comparisons than a gate; `readers`: the command
 * that chooses events by it, or NULL. -EINVAL: it does not suit the class, or names a function that
 * the image does not have. `image` may be NULL.
 */
int functions_check_calls(const struct trace_spec *spec, const struct event_class *class,
			  const struct kernel_image *image, const char *readers, struct error *err);
/* Why their specs take no vCPUs. */
#define FUNCTIONS_OTHER_VCPU "a call may return on another one than it began on"
/* Why those that record no returns take no "only" and "depth"; the command's options follow. */
#define FUNCTIONS_NESTED \
	"what is called within others is seen in a trace of graph, with sonde events --graph "
/* What counts that which is known when a call returns. */
#define FUNCTIONS_COUNTED                                                           \
	"results by 'probe:r:x FUNCTION $retval:s64,hist:keys=arg1', and times by " \
	"'profile:PATTERN,hist'"
/* Such a condition, and the spec's pids. -E2BIG, and as above. */
int functions_add_calls(struct gate *gate, const struct kernel *kernel,
			const struct trace_spec *spec, const struct event_class *class,
			struct error *err);
/* `conditions` of struct tracer_ops: the guest decides all. */
void functions_call_conditions(const struct tracer *tracer, const struct trace_spec *spec,
			       enum tracer_decider decider, char *out, size_t size);

#endif
