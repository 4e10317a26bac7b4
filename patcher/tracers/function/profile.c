/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The profile tracer: calls of the functions that its patterns name are counted in the guest, with
 * their times. There are no events. */
#include <errno.h>
#include <stdlib.h>
#include "formats/event/function.h"
#include "patcher/ring/profile.h"
#include "patcher/tracers/functions.h"

static const char *const words[] = {"hist", "tails", NULL};
enum { WORD_HIST = 1 << 0, WORD_TAILS = 1 << 1 };

static const struct trace_read_option readers[] = {
	{"only", NULL, FUNCTIONS_NESTED "--only FUNCTION"},
	{"depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{"max_depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{"max_graph_depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{"histogram", NULL,
	 "count calls by 'function:PATTERN,hist:keys=FIELD', " FUNCTIONS_COUNTED},
	{"vcpu", NULL, FUNCTIONS_OTHER_VCPU},
	{"cpu", NULL, FUNCTIONS_OTHER_VCPU},
	{NULL, NULL, NULL},
};

struct profile_tracer {
	struct tracer tracer;
	struct functions functions;
	const struct trace_spec *spec;
	struct gate gate;
	struct profile *profile;
};

extern const struct tracer_ops tracer_profile; /* registry.c lists it */

static const struct profile_tracer *tracer_of(const struct tracer *tracer)
{
	return (const struct profile_tracer *)tracer;
}

static void destroy(struct tracer *tracer)
{
	struct profile_tracer *t = (struct profile_tracer *)tracer;

	functions_deinit(&t->functions);
	profile_put(t->profile);
	free(t);
}

/* There are no events; those of the function tracer have all that is known of a call. */
static int check(const struct trace_spec *spec, struct error *err)
{
	return functions_check_calls(spec, function_class(FUNCTION_ALL), NULL, NULL, err);
}

static int check_image(const struct trace_spec *spec, const struct kernel_image *image,
		       struct error *err)
{
	int ret = functions_check_image(spec, image, err);

	if (ret)
		return ret;
	return functions_check_calls(spec, function_class(FUNCTION_ALL), image, NULL, err);
}

static int create(const struct tracer_context *context, const struct trace_spec *const *specs,
		  size_t nr_specs, struct tracer **out, struct error *err)
{
	struct profile_tracer *t = calloc(1, sizeof(*t));
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_profile;
	t->spec = specs[0];
	ret = functions_init(&t->functions, context->kernel, specs[0], err);
	if (!ret)
		ret = functions_add_calls(&t->gate, context->kernel, specs[0],
					  function_class(FUNCTION_ALL), err);
	if (!ret)
		ret = tracer_check_task(context->kernel, 0, &t->gate, err);
	if (!ret)
		ret = profile_create(specs[0]->words & WORD_HIST, specs[0]->words & WORD_TAILS,
				     context->kernel->guest->budget, &t->profile, err);
	if (ret)
		destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

static int select_sites(const struct tracer *tracer, const struct site_table *sites, bool again,
			bool *wanted, struct function_notes *notes, struct error *err)
{
	return functions_select(&tracer_of(tracer)->functions, sites, again, wanted, notes, err);
}

static uint32_t no_fields(const struct tracer *tracer)
{
	(void)tracer;
	return 0;
}

static bool profile_tails(const struct tracer *tracer)
{
	return tracer_of(tracer)->spec->words & WORD_TAILS;
}

static const struct event_class *no_classes(const struct tracer *tracer, size_t *n)
{
	(void)tracer;
	*n = 0;
	return NULL;
}

static struct profile *get_profile(const struct tracer *tracer)
{
	return tracer_of(tracer)->profile;
}

static const struct gate *get_gate(const struct tracer *tracer)
{
	return tracer_of(tracer)->gate.n ? &tracer_of(tracer)->gate : NULL;
}

const struct tracer_ops tracer_profile = {
	.name = "profile",
	.help = "how often functions are called, and how long they take, without an event per call",
	.lane = LANE_DIRECT,
	.classes = no_classes,
	.words = words,
	.takes = TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_FILTER,
	.readers = readers,
	.check = check,
	.check_image = check_image,
	.create = create,
	.destroy = destroy,
	.select = select_sites,
	.fields = no_fields,
	.return_fields = no_fields,
	.tails = profile_tails,
	.profile = get_profile,
	.conditions = functions_call_conditions,
	.gate = get_gate,
};
