/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The probe tracer: calls of a function, or its returns, with what the user wants to see of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/kernel/module-btf.h"
#include "patcher/fetch/fetch.h"
#include "patcher/tracers/condition-names.h"
#include "patcher/tracers/helpers.h"
#include "patcher/tracers/probe/probe.h"
#include "patcher/tracers/tracer.h"

enum {
	MAX_GATE_FIELDS = FETCH_MAX_ARGS + 4,
};

static const char *const words[] = {TRACER_TASK_WORDS, NULL};

struct probe_tracer {
	struct tracer tracer;
	const struct kernel *kernel;
	const struct trace_spec *spec;
	struct fetch_probe probe; /* the spec's, with its symbols resolved */
	struct fetch_program program;
	/* NULL: it needs the types of a module that has not been there yet, and is not finished */
	const struct event_class *class;
	struct probe_place place;
	struct condition_names names;      /* of the predicate */
	struct event_predicate *predicate; /* NULL: no filter */
	struct gate gate;
	struct gate_split split; /* of the filter, if there is one */
	struct gate_rest rest;
	struct error misfit; /* of the spec and its module's types; code 0: none */
};

extern const struct tracer_ops tracer_probe; /* registry.c lists it */

static const struct probe_tracer *probe_of(const struct tracer *tracer)
{
	return (const struct probe_tracer *)tracer;
}

static void probe_destroy(struct tracer *tracer)
{
	struct probe_tracer *t = (struct probe_tracer *)tracer;

	event_predicate_destroy(t->predicate);
	free(t);
}

/* --- the program ----------------------------------------------------------------------------- */

static int make_program(struct probe_tracer *t, const struct btf_types *types, struct error *err)
{
	const struct fetch_helpers helpers = helpers_of(t->kernel);
	int ret = probe_resolve(&t->probe, t->place.name, types, t->kernel, err);

	if (!ret && t->spec->hist)
		ret = fetch_shorten(&t->probe, err);
	if (!ret && t->spec->hist && t->probe.nr_fields > FETCH_FEW_FIELDS)
		ret = error_set_column(err, EINVAL, t->probe.args[t->probe.nr_args - 1].column,
				       "more than %d fields of a histogram: an array has one for "
				       "each element",
				       FETCH_FEW_FIELDS);
	if (!ret)
		t->program = fetch_program_of(&t->probe, &helpers);
	return ret;
}

/* --- which calls ----------------------------------------------------------------------------- */

static bool is_gate_source(const struct fetch_arg *arg, enum gate_source *source)
{
	static const enum fetch_register regs[] = {FETCH_DI, FETCH_SI, FETCH_DX,
						   FETCH_CX, FETCH_R8, FETCH_R9};

	if (arg->ops[0].kind != FETCH_REGISTER || arg->nr_ops > 1 || arg->ops[0].at ||
	    arg->bit_width || arg->show == FETCH_CHARACTER)
		return false;
	for (unsigned int i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		if (arg->ops[0].reg != regs[i])
			continue;
		*source = (enum gate_source)(GATE_ARG0 + i);
		return true;
	}
	return false;
}

/* If events have it. */
static void add_own(const struct probe_tracer *t, const char *name, enum gate_source source,
		    uint8_t size, struct gate_field *out, size_t *n)
{
	const struct event_field *field = event_field_own(t->class, name);

	if (field)
		out[(*n)++] = (struct gate_field){field->name, source, size, false};
}

/* What is known of a call, or of a return, in the guest. */
static size_t list_gate_fields(const struct probe_tracer *t, struct gate_field *out)
{
	enum gate_source source;
	size_t n = 0;

	add_own(t, "pid", GATE_PID, 4, out, &n);
	add_own(t, "tgid", GATE_TGID, 4, out, &n);
	add_own(t, "cgroup", GATE_CGROUP, 8, out, &n);
	if (t->probe.returns)
		return n;
	out[n++] = (struct gate_field){.source = GATE_VCPU, .size = 4};
	for (size_t i = 0; i < t->probe.nr_args; i++) {
		const struct fetch_arg *arg = &t->probe.args[i];

		if (is_gate_source(arg, &source))
			out[n++] = (struct gate_field){.name = arg->name,
						       .source = source,
						       .size = arg->size,
						       .is_signed = arg->show == FETCH_SIGNED};
	}
	return n;
}

static int add_filter(struct probe_tracer *t, struct error *err)
{
	struct gate_field fields[MAX_GATE_FIELDS];
	int ret;

	if (!t->spec->filter)
		return 0;
	condition_names_init(&t->names, t->kernel->image, t->kernel->virt_slide);
	ret = event_filter_bind(t->spec->filter, t->class, &t->names.names, &t->predicate, err);
	if (ret && err && err->column)
		err->column = trace_spec_filter_column(t->spec, err->column);
	if (ret)
		return ret;
	gate_split(t->predicate, fields, list_gate_fields(t, fields), &t->split);
	t->rest = (struct gate_rest){t->predicate, t->split.known};
	return gate_conjoin(&t->gate, &t->split.gate, err);
}

static void probe_conditions(const struct tracer *tracer, const struct trace_spec *spec,
			     enum tracer_decider decider, char *out, size_t size)
{
	const struct probe_tracer *t = probe_of(tracer);

	(void)spec;
	*out = '\0';
	if (t->predicate)
		gate_split_print(&t->split, t->predicate, decider == DECIDED_BY_GUEST, out, size);
}

static struct probe_tracer *new_probe(const struct kernel *kernel, const struct trace_spec *spec)
{
	struct probe_tracer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->tracer.ops = &tracer_probe;
	t->kernel = kernel;
	t->spec = spec;
	t->probe = *spec->probe;
	return t;
}

/* --- from the spec to the class --------------------------------------------------------------- */

static bool needs_module(const struct probe_tracer *t)
{
	return t->spec->probe->module[0] && fetch_needs_types(t->spec->probe);
}

/* Errors have the column in the spec. */
static int finish(struct probe_tracer *t, const struct btf_types *types, struct error *err)
{
	const struct event_class *class;
	int ret = make_program(t, types, err);

	if (!ret)
		ret = probe_class_of(&t->probe, &t->program, t->spec->words, &class, err);
	if (ret) {
		trace_spec_place_in_probe(t->spec, err);
		return ret;
	}
	t->class = class;
	ret = add_filter(t, err);
	if (ret)
		t->class = NULL;
	return ret;
}

/* *err becomes one of the first argument that needs the module's types. */
static void place_types(const struct probe_tracer *t, struct error *err)
{
	const struct fetch_arg *arg = t->spec->probe->args;

	while (arg->ops[0].kind != FETCH_PARAMETER)
		arg++;
	error_prefix(err, "argument '%s': ", arg->name);
	if (err)
		err->column = arg->column;
	trace_spec_place_in_probe(t->spec, err);
}

/* What is known of the arguments without the function, and so without its parameters. */
static int check_symbols(struct probe_tracer *t, struct error *err)
{
	const struct fetch_probe whole = t->probe;
	size_t n = 0;
	int ret;

	for (size_t i = 0; i < whole.nr_args; i++)
		if (whole.args[i].ops[0].kind != FETCH_PARAMETER)
			t->probe.args[n++] = whole.args[i];
	t->probe.nr_args = n;
	ret = make_program(t, NULL, err);
	if (ret)
		trace_spec_place_in_probe(t->spec, err);
	t->probe = whole;
	return ret;
}

/* What of a module's types is known to be wrong before it is loaded. */
static int check_types(struct probe_tracer *t, struct error *err)
{
	int ret = module_btf_check(t->kernel->image, err);

	if (!ret && t->spec->hist)
		ret = error_set(err, ENOTSUP,
				"the keys of a histogram are known before the types of modules "
				"are: give $argN, $retval or a register");
	if (ret)
		place_types(t, err);
	return ret ? ret : check_symbols(t, err);
}

static int make(struct probe_tracer *t, struct error *err)
{
	int ret = tracer_check_task(t->kernel, t->spec->words, NULL, err);

	if (ret)
		return ret;
	ret = probe_find_place(&t->probe, t->kernel, &t->place, err);
	if (ret) {
		trace_spec_place_in_probe(t->spec, err);
		return ret;
	}
	return needs_module(t) ? check_types(t, err) : finish(t, t->kernel->image->btf, err);
}

static int probe_create(const struct tracer_context *context, const struct trace_spec *const *specs,
			size_t nr_specs, struct tracer **out, struct error *err)
{
	struct probe_tracer *t = new_probe(context->kernel, specs[0]);
	int ret;

	(void)nr_specs;
	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	ret = make(t, err);
	if (ret)
		probe_destroy(&t->tracer);
	else
		*out = &t->tracer;
	return ret;
}

static int probe_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			     struct error *err)
{
	const struct kernel kernel = {.image = image};
	struct probe_tracer *t = new_probe(&kernel, spec);
	int ret;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	/* where the kernel is to be is not known yet, and so not which function an address means */
	ret = spec->probe->symbol[0] ? make(t, err) : check_symbols(t, err);
	probe_destroy(&t->tracer);
	return ret;
}

/* --- what is recorded ------------------------------------------------------------------------ */

static bool is_wanted(const struct probe_tracer *t, const struct site *site)
{
	if (t->place.function)
		return site->gva - t->place.function <= HELPER_SITE_OFFSET;
	return site->name && site->module && !strcmp(site->module, t->probe.module) &&
	       !strcmp(site->name, t->probe.symbol);
}

static size_t count_wanted(const struct probe_tracer *t, const struct site_table *sites)
{
	size_t n = 0;

	for (size_t i = 0; i < sites->n; i++)
		n += is_wanted(t, &sites->v[i]);
	return n;
}

/* A module may come again as another build. What events have is settled, so that it must be the
 * same. */
static int check_again(const struct probe_tracer *t, const struct btf_types *types,
		       struct error *err)
{
	struct fetch_probe now = *t->spec->probe;
	int ret = probe_resolve(&now, t->place.name, types, t->kernel, err);

	if (ret)
		trace_spec_place_in_probe(t->spec, err);
	else if (!fetch_is_same(&t->probe, &now))
		ret = error_set(err, ENOTSUP,
				"module '%s' has other types than before: make the probe anew",
				t->probe.module);
	return ret;
}

/* What does not fit the first types that come is not tried with others: a guest could make it have
 * any number of classes. */
static int learn_first(struct probe_tracer *t, const struct btf_types *types, struct error *err)
{
	struct error why = t->misfit;

	if (why.code)
		goto out;
	event_predicate_destroy(t->predicate);
	t->predicate = NULL;
	t->gate = (struct gate){0};
	t->probe = *t->spec->probe;
	if (!finish(t, types, &why))
		return 0;
	if (why.code != ENOMEM)
		t->misfit = why;
out:
	if (err)
		*err = why;
	return -why.code;
}

static int read_types(const struct probe_tracer *t, size_t nr_functions, struct module_btf *out,
		      struct error *err)
{
	if (nr_functions > 1)
		return error_set(err, EADDRNOTAVAIL,
				 "%zu functions of module '%s' have the name '%s': which one its "
				 "types have is not known",
				 nr_functions, t->probe.module, t->probe.symbol);
	return module_btf_read(t->kernel, t->probe.module, out, err);
}

static int probe_learn(struct tracer *tracer, const struct site_table *sites, struct error *err)
{
	struct probe_tracer *t = (struct probe_tracer *)tracer;
	const size_t n = needs_module(t) ? count_wanted(t, sites) : 0;
	struct module_btf btf;
	int ret;

	if (!n)
		return 0;
	ret = read_types(t, n, &btf, err);
	if (ret) {
		place_types(t, err);
		return ret;
	}
	ret = t->class ? check_again(t, btf.types, err) : learn_first(t, btf.types, err);
	module_btf_deinit(&btf);
	return ret;
}

static bool is_loaded(const struct probe_tracer *t, const struct site_table *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		if (sites->v[i].module && !strcmp(sites->v[i].module, t->probe.module))
			return true;
	return false;
}

static int probe_select(const struct tracer *tracer, const struct site_table *sites, bool again,
			bool *wanted, struct function_notes *notes, struct error *err)
{
	const struct probe_tracer *t = probe_of(tracer);
	bool any = t->place.inside != 0;

	for (size_t i = 0; i < sites->n; i++) {
		wanted[i] = !t->place.inside && is_wanted(t, &sites->v[i]);
		any |= wanted[i];
	}
	if (any || again || t->place.function)
		return 0;
	if (is_loaded(t, sites))
		return error_set(err, ENOENT, "module '%s' has no function '%s' that can be probed",
				 t->probe.module, t->probe.symbol);
	return function_notes_add(notes, err,
				  "module '%s' is not loaded; if it is built in, leave it out",
				  t->probe.module);
}

static uint32_t probe_fields(const struct tracer *tracer)
{
	const struct probe_tracer *t = probe_of(tracer);

	return DIRECT_PID | (t->probe.returns ? DIRECT_PARENT : 0u) |
	       (t->spec->words & DIRECT_TASK_FIELDS);
}

static const struct fetch_program *probe_fetch(const struct tracer *tracer)
{
	return &probe_of(tracer)->program;
}

static bool probe_returns(const struct tracer *tracer)
{
	return probe_of(tracer)->probe.returns;
}

static uint64_t probe_inside(const struct tracer *tracer)
{
	return probe_of(tracer)->place.inside;
}

static const struct event_class *probe_classes(const struct tracer *tracer, size_t *n)
{
	*n = probe_of(tracer)->class ? 1 : 0;
	return probe_of(tracer)->class;
}

static const struct gate *probe_gate(const struct tracer *tracer)
{
	return probe_of(tracer)->gate.n ? &probe_of(tracer)->gate : NULL;
}

static const struct gate_rest *probe_filter(const struct tracer *tracer)
{
	const struct probe_tracer *t = probe_of(tracer);

	return t->predicate && !t->split.whole ? &t->rest : NULL;
}

const struct tracer_ops tracer_probe = {
	.name = "probe",
	.help = "a call or return of a function with any values, as kprobe_events defines them",
	.lane = LANE_DIRECT,
	.classes = probe_classes,
	.words = words,
	.takes = TRACE_TAKES_PROBE | TRACE_TAKES_FILTER | TRACE_TAKES_HIST,
	.check_image = probe_check_image,
	.in_image = true,
	.create = probe_create,
	.destroy = probe_destroy,
	.learn = probe_learn,
	.select = probe_select,
	.fields = probe_fields,
	.fetch = probe_fetch,
	.at_returns = probe_returns,
	.inside = probe_inside,
	.conditions = probe_conditions,
	.gate = probe_gate,
	.filter = probe_filter,
};
