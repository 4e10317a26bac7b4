/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The graph tracer: every call of the functions that its patterns name, and every return from one,
 * is an event. A reader pairs them by the call's frame. */
#include <errno.h>
#include <stdlib.h>
#include "formats/event/graph.h"
#include "patcher/tracers/functions.h"

/* In the order of the bits of enum graph_fields, and what is no field. */
static const char *const words[] = {TRACER_TASK_WORDS, "ret", "tails", NULL};
enum { WORD_TAILS = 1 << 6 };

/* Which calls are within others is known when returns are paired with entries: by readers. And a
 * call may return on another vCPU. */
static const struct trace_read_option readers[] = {
	{"only", "sonde events --graph --only FUNCTION, sonde report --only FUNCTION", NULL},
	{"depth", "sonde events --graph --depth N", NULL},
	{"max_depth", "sonde events --graph --depth N", NULL},
	{"max_graph_depth", "sonde events --graph --depth N", NULL},
	{"histogram", NULL,
	 "count calls by 'function:PATTERN,hist:keys=FIELD', " FUNCTIONS_COUNTED},
	{"vcpu", "sonde events --vcpu N", FUNCTIONS_OTHER_VCPU},
	{"cpu", "sonde events --vcpu N", FUNCTIONS_OTHER_VCPU},
	{NULL, NULL, NULL},
};
_Static_assert(WORD_TAILS == 2 * GRAPH_RESULT, "the bits of words[]");
_Static_assert((int)GRAPH_ENTRY == TRACER_ENTRY && (int)GRAPH_EXIT == TRACER_EXIT &&
		       (int)GRAPH_CALL == TRACER_CALL && (int)GRAPH_TAIL == TRACER_TAIL,
	       "the classes by their numbers");

struct graph_tracer {
	struct tracer tracer;
	struct functions functions;
	const struct trace_spec *spec;
	struct gate gate;
};

extern const struct tracer_ops tracer_graph; /* registry.c lists it */

static const struct graph_tracer *graph_of(const struct tracer *tracer)
{
	return (const struct graph_tracer *)tracer;
}

static void graph_destroy(struct tracer *tracer)
{
	struct graph_tracer *t = (struct graph_tracer *)tracer;

	functions_deinit(&t->functions);
	free(t);
}

/* With all that a condition may ask for. */
static const struct event_class *entry_class(void)
{
	return &graph_classes(GRAPH_ALL)[GRAPH_ENTRY];
}

#define READERS "sonde events --filter"

static int graph_check(const struct trace_spec *spec, struct error *err)
{
	return functions_check_calls(spec, entry_class(), NULL, READERS, err);
}

static int graph_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			     struct error *err)
{
	int ret = functions_check_image(spec, image, err);

	return ret ? ret : functions_check_calls(spec, entry_class(), image, READERS, err);
}

static int graph_create(const struct tracer_context *context, const struct trace_spec *const *specs,
			size_t nr_specs, struct tracer **out, struct error *err)
{
	struct graph_tracer *t = calloc(1, sizeof(*t));
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_graph;
	t->spec = specs[0];
	ret = functions_init(&t->functions, context->kernel, specs[0], err);
	if (!ret)
		ret = functions_add_calls(&t->gate, context->kernel, specs[0], entry_class(), err);
	if (!ret)
		ret = tracer_check_task(context->kernel, specs[0]->words, &t->gate, err);
	if (ret)
		graph_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

static int graph_select(const struct tracer *tracer, const struct site_table *sites, bool again,
			bool *wanted, struct function_notes *notes, struct error *err)
{
	return functions_select(&graph_of(tracer)->functions, sites, again, wanted, notes, err);
}

static uint32_t graph_fields(const struct tracer *tracer)
{
	const uint32_t wanted = graph_of(tracer)->spec->words;

	return DIRECT_FRAME | DIRECT_PID | DIRECT_PARENT | (wanted & DIRECT_TASK_FIELDS);
}

static uint32_t graph_return_fields(const struct tracer *tracer)
{
	return DIRECT_FRAME | (graph_of(tracer)->spec->words & GRAPH_RESULT ? DIRECT_RESULT : 0u);
}

static bool graph_tails(const struct tracer *tracer)
{
	return graph_of(tracer)->spec->words & WORD_TAILS;
}

static const struct event_class *graph_tracer_classes(const struct tracer *tracer, size_t *n)
{
	*n = GRAPH_NR_CLASSES;
	return graph_classes(graph_of(tracer)->spec->words);
}

static const struct gate *graph_gate(const struct tracer *tracer)
{
	return graph_of(tracer)->gate.n ? &graph_of(tracer)->gate : NULL;
}

const struct tracer_ops tracer_graph = {
	.name = "graph",
	.help = "calls of functions, with their returns: what calls what, and for how long",
	.lane = LANE_DIRECT,
	.classes = graph_tracer_classes,
	.words = words,
	.takes = TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_FILTER,
	.readers = readers,
	.check = graph_check,
	.check_image = graph_check_image,
	.create = graph_create,
	.destroy = graph_destroy,
	.select = graph_select,
	.fields = graph_fields,
	.return_fields = graph_return_fields,
	.tails = graph_tails,
	.conditions = functions_call_conditions,
	.gate = graph_gate,
};
