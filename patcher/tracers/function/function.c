/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The function tracer: every call of the functions that its patterns name is an event. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/function.h"
#include "patcher/tracers/condition-names.h"
#include "patcher/tracers/functions.h"

/* In the order of the bits of enum function_fields, which are those of enum direct_field, too. */
static const char *const words[] = {TRACER_TASK_WORDS, "parent", NULL};
_Static_assert((int)FUNCTION_ALL == ((DIRECT_TASK_FIELDS & ~DIRECT_STACK) | DIRECT_PARENT) &&
		       (int)FUNCTION_STACK == DIRECT_STACK,
	       "the bits of words[]");

static const struct trace_read_option readers[] = {
	{"only", NULL, FUNCTIONS_NESTED "--only FUNCTION"},
	{"depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{"max_depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{"max_graph_depth", NULL, FUNCTIONS_NESTED "--depth N"},
	{NULL, NULL, NULL},
};

/* What is known of a call in the guest. */
static const struct gate_field gate_fields[] = {
	{.source = GATE_VCPU, .size = 4},
	{.name = "pid", .source = GATE_PID, .size = 4},
	{.name = "tgid", .source = GATE_TGID, .size = 4},
	{.name = "cgroup", .source = GATE_CGROUP, .size = 8},
	{.name = "parent_ip", .source = GATE_CALL_SITE, .size = 8},
};
enum { NR_GATE_FIELDS = sizeof(gate_fields) / sizeof(gate_fields[0]) };

struct function_tracer {
	struct tracer tracer;
	struct functions functions;
	const struct trace_spec *spec;
	struct condition_names names;      /* of the predicate */
	uint32_t fields;                   /* enum function_fields */
	struct event_predicate *predicate; /* NULL: no filter */
	struct gate gate;
	struct gate_split split; /* of the filter, if there is one */
	struct gate_rest rest;
	bool has_rest; /* the gate does not decide all of the filter */
};

extern const struct tracer_ops tracer_function; /* registry.c lists it */

static const struct function_tracer *function_of(const struct tracer *tracer)
{
	return (const struct function_tracer *)tracer;
}

static void function_destroy(struct tracer *tracer)
{
	struct function_tracer *t = (struct function_tracer *)tracer;

	event_predicate_destroy(t->predicate);
	functions_deinit(&t->functions);
	free(t);
}

/* --- which calls ----------------------------------------------------------------------------- */

/* The fields that the host needs for what the gate has left. */
static uint32_t fields_of_rest(const struct event_predicate *predicate,
			       const struct event_known *known, unsigned int node)
{
	static const struct {
		const char *name;
		uint32_t field;
	} known_fields[] = {{"pid", FUNCTION_PID},
			    {"tgid", FUNCTION_TGID},
			    {"comm", FUNCTION_COMM},
			    {"cgroup", FUNCTION_CGROUP},
			    {"parent_ip", FUNCTION_PARENT}};
	const struct event_node n = event_predicate_node(predicate, node);
	uint32_t fields = 0;

	if (event_known_has(known, node))
		return 0;
	if (n.kind != FILTER_TERM) {
		fields = fields_of_rest(predicate, known, n.left);
		return n.kind == FILTER_NOT ? fields
					    : fields | fields_of_rest(predicate, known, n.right);
	}
	for (size_t i = 0; n.field && i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
		if (!strcmp(n.field->name, known_fields[i].name))
			fields |= known_fields[i].field;
	return fields;
}

/* All classes of the tracer's events have the same bytes: the one with all fields serves all. */
static int add_filter(struct function_tracer *t, const struct kernel_image *image, uint64_t slide,
		      struct error *err)
{
	int ret;

	if (!t->spec->filter)
		return 0;
	condition_names_init(&t->names, image, slide);
	ret = event_filter_bind(t->spec->filter, function_class(FUNCTION_ALL), &t->names.names,
				&t->predicate, err);
	if (ret && err && err->column)
		err->column = trace_spec_filter_column(t->spec, err->column);
	if (ret)
		return ret;
	gate_split(t->predicate, gate_fields, NR_GATE_FIELDS, &t->split);
	t->has_rest = !t->split.whole;
	t->rest = (struct gate_rest){t->predicate, t->split.known};
	if (t->has_rest)
		t->fields |= fields_of_rest(t->predicate, &t->split.known,
					    event_predicate_root(t->predicate));
	return functions_add_condition(&t->gate, t->spec, &t->split.gate, err);
}

/* `image` may be NULL. */
static int make_gate(struct function_tracer *t, const struct kernel_image *image, uint64_t slide,
		     struct error *err)
{
	int ret = functions_add_pids(&t->gate, t->spec, err);

	if (!ret)
		ret = functions_add_vcpus(&t->gate, t->spec, err);
	return ret ? ret : add_filter(t, image, slide, err);
}

static int check_gate(const struct trace_spec *spec, const struct kernel_image *image,
		      struct error *err)
{
	struct function_tracer t = {.spec = spec};
	int ret = make_gate(&t, image, 0, err);

	event_predicate_destroy(t.predicate);
	return ret;
}

static int function_check(const struct trace_spec *spec, struct error *err)
{
	return check_gate(spec, NULL, err);
}

static int function_check_image(const struct trace_spec *spec, const struct kernel_image *image,
				struct error *err)
{
	int ret = functions_check_image(spec, image, err);

	return ret ? ret : check_gate(spec, image, err);
}

static void join(char *out, size_t size, const char *more)
{
	size_t used = strlen(out);

	if (*more)
		snprintf(out + used, size - used, "%s%s", used ? " && " : "", more);
}

static void function_conditions(const struct tracer *tracer, const struct trace_spec *spec,
				enum tracer_decider decider, char *out, size_t size)
{
	const struct function_tracer *t = function_of(tracer);
	char text[EVENT_FILTER_MAX] = "";

	*out = '\0';
	if (decider == DECIDED_BY_GUEST) {
		trace_spec_print_pids(spec, text, sizeof(text));
		join(out, size, text);
		trace_spec_print_vcpus(spec, text, sizeof(text));
		join(out, size, text);
	}
	if (!t->predicate)
		return;
	gate_split_print(&t->split, t->predicate, decider == DECIDED_BY_GUEST, text, sizeof(text));
	join(out, size, text);
}

static int function_create(const struct tracer_context *context,
			   const struct trace_spec *const *specs, size_t nr_specs,
			   struct tracer **out, struct error *err)
{
	struct function_tracer *t = calloc(1, sizeof(*t));
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->tracer.ops = &tracer_function;
	t->spec = specs[0];
	t->fields = specs[0]->words;
	ret = functions_init(&t->functions, context->kernel, specs[0], err);
	if (!ret)
		ret = make_gate(t, context->kernel->image, context->kernel->virt_slide, err);
	if (!ret)
		ret = tracer_check_task(context->kernel, t->fields, &t->gate, err);
	if (ret)
		function_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

/* --- what is recorded ------------------------------------------------------------------------ */

static int function_select(const struct tracer *tracer, const struct site_table *sites, bool again,
			   bool *wanted, struct function_notes *notes, struct error *err)
{
	return functions_select(&function_of(tracer)->functions, sites, again, wanted, notes, err);
}

static uint32_t function_fields(const struct tracer *tracer)
{
	return function_of(tracer)->fields;
}

static const struct event_class *function_classes(const struct tracer *tracer, size_t *n)
{
	*n = 1;
	return function_class(function_of(tracer)->fields);
}

static const struct gate *function_gate(const struct tracer *tracer)
{
	return function_of(tracer)->gate.n ? &function_of(tracer)->gate : NULL;
}

static const struct gate_rest *function_filter(const struct tracer *tracer)
{
	return function_of(tracer)->has_rest ? &function_of(tracer)->rest : NULL;
}

const struct tracer_ops tracer_function = {
	.name = "function",
	.help = "calls of functions of the kernel and its modules",
	.lane = LANE_DIRECT,
	.classes = function_classes,
	.words = words,
	.takes = TRACE_TAKES_FUNCTIONS | TRACE_TAKES_PIDS | TRACE_TAKES_VCPUS | TRACE_TAKES_FILTER |
		 TRACE_TAKES_HIST,
	.readers = readers,
	.check = function_check,
	.check_image = function_check_image,
	.create = function_create,
	.destroy = function_destroy,
	.select = function_select,
	.fields = function_fields,
	.conditions = function_conditions,
	.gate = function_gate,
	.filter = function_filter,
};
