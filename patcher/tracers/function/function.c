/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The function tracer: every call of the functions that its patterns name is an event. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/event/function.h"
#include "patcher/tracers/tracer.h"

/* In the order of the bits of enum direct_field, and of enum function_fields. */
static const char *const words[] = {"parent", "pid", "comm", NULL};
_Static_assert(DIRECT_PARENT == 1 && DIRECT_PID == 2 && DIRECT_COMM == 4, "the bits of words[]");
_Static_assert(FUNCTION_PARENT == 1 && FUNCTION_PID == 2 && FUNCTION_COMM == 4, "likewise");

struct function_tracer {
	struct tracer tracer;
	uint32_t fields;
	struct function_patterns functions;
};

extern const struct tracer_ops tracer_function; /* registry.c lists it */

static const struct function_tracer *function_of(const struct tracer *tracer)
{
	return (const struct function_tracer *)tracer;
}

static void function_destroy(struct tracer *tracer)
{
	struct function_tracer *t = (struct function_tracer *)tracer;

	function_patterns_deinit(&t->functions);
	free(t);
}

static int copy_patterns(struct function_tracer *t, const struct function_patterns *from,
			 struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < from->n; i++)
		ret = function_patterns_add(&t->functions, from->v[i].text, strlen(from->v[i].text),
					    err);
	return ret;
}

static int function_create(const struct tracer_context *context,
			   const struct trace_spec *const *specs, size_t nr_specs,
			   struct tracer **out, struct error *err)
{
	struct function_tracer *t = calloc(1, sizeof(*t));
	int ret;

	(void)context;
	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_function;
	t->fields = specs[0]->words;
	ret = copy_patterns(t, &specs[0]->functions, err);
	if (ret)
		function_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

static bool is_in_module(const struct function_pattern *p, const char *module)
{
	if (!p->module)
		return true;
	return (module && glob_matches(p->module, module)) != p->module_negated;
}

/* The last pattern that matches decides. */
static bool is_wanted(const struct function_patterns *patterns, const struct site *site)
{
	for (size_t i = patterns->n; i-- > 0;) {
		const struct function_pattern *p = &patterns->v[i];

		if (is_in_module(p, site->module) && glob_matches(p->name, site->name))
			return !p->negated;
	}
	return !patterns->n || patterns->v[0].negated;
}

static int function_select(const struct tracer *tracer, const struct site_table *sites,
			   bool *wanted, struct error *err)
{
	const struct function_patterns *patterns = &function_of(tracer)->functions;
	size_t n = 0;

	for (size_t i = 0; i < sites->n; i++) {
		wanted[i] = sites->v[i].name && is_wanted(patterns, &sites->v[i]);
		n += wanted[i];
	}
	if (n)
		return 0;
	return error_set(err, ENOENT, "the guest's kernel has no function '%s' that can be traced",
			 patterns->n ? patterns->v[0].text : "*");
}

static uint32_t function_fields(const struct tracer *tracer)
{
	return function_of(tracer)->fields;
}

const struct tracer_ops tracer_function = {
	.name = "function",
	.help = "calls of functions of the kernel and its modules",
	.lane = LANE_DIRECT,
	.words = words,
	.takes = TRACE_TAKES_FUNCTIONS,
	.create = function_create,
	.destroy = function_destroy,
	.select = function_select,
	.fields = function_fields,
};
