/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/functions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "patcher/tracers/condition-names.h"

enum { MOST_APART = 48 }; /* values of which no two follow each other that a gate has room for */

int functions_init(struct functions *f, const struct kernel *kernel, const struct trace_spec *spec,
		   struct error *err)
{
	*f = (struct functions){.kernel = kernel, .spec = spec};
	return function_set_create(&spec->functions, &f->set, err);
}

void functions_deinit(struct functions *f)
{
	function_set_destroy(f->set);
	*f = (struct functions){0};
}

/* The image knows all names of its functions, if these are asked for; those of modules are the site
 * table's. */
static int list_functions(const struct functions *f, const struct site_table *sites,
			  struct traceable_list *list, struct error *err)
{
	int ret = 0;

	if (!sites->no_image)
		ret = traceable_list_add_image(list, f->kernel->image, f->kernel->virt_slide, err);
	for (size_t i = 0; !ret && i < sites->n; i++) {
		const struct site *site = &sites->v[i];

		if (site->name && site->module)
			ret = traceable_list_add(list,
						 &(struct traceable){.name = site->name,
								     .module = site->module,
								     .address = site->gva,
								     .site = site->gva},
						 err);
	}
	return ret;
}

/* Both are in the order of addresses. Returns how many of the selection have a site. */
static size_t mark(const struct function_selection *selection, const struct site_table *sites,
		   bool *wanted)
{
	size_t n = 0, k = 0;

	for (size_t i = 0; i < sites->n; i++) {
		while (k < selection->n && selection->v[k].site < sites->v[i].gva)
			k++;
		wanted[i] = k < selection->n && selection->v[k].site == sites->v[i].gva;
		n += wanted[i];
	}
	return n;
}

static int resolve(const struct function_set *set, const struct traceable_list *list,
		   struct function_selection *out, struct error *err)
{
	int ret = function_set_resolve(set, list, out, err);

	if (ret && err && err->column)
		error_prefix(err, "trace spec, character %u: ", err->column);
	return ret;
}

int functions_mark(struct function_set *set, const struct traceable_list *list,
		   const struct site_table *sites, bool again, bool *wanted, size_t *n,
		   struct function_notes *notes, struct error *err)
{
	struct function_selection selection = {0};
	int ret = (again ? function_set_select : resolve)(set, list, &selection, err);

	if (ret)
		return ret;
	*n = mark(&selection, sites, wanted);
	*notes = selection.notes;
	selection.notes = (struct function_notes){0};
	function_selection_deinit(&selection);
	return 0;
}

static int no_function(const struct trace_spec *spec, struct error *err)
{
	return error_set(err, ENOENT, "'%s' means no function that is loaded now", spec->text);
}

int functions_select(const struct functions *f, const struct site_table *sites, bool again,
		     bool *wanted, struct function_notes *notes, struct error *err)
{
	struct traceable_list list = {0};
	size_t n = 0;
	int ret = list_functions(f, sites, &list, err);

	if (!ret)
		ret = functions_mark(f->set, &list, sites, again, wanted, &n, notes, err);
	if (!ret && !n && !again && !function_set_awaits_module(f->set))
		ret = no_function(f->spec, err);
	traceable_list_deinit(&list);
	return ret;
}

int functions_resolve(const struct trace_spec *spec, const struct traceable_list *list, bool *any,
		      struct error *err)
{
	struct function_selection selection = {0};
	struct function_set *set;
	int ret = function_set_create(&spec->functions, &set, err);

	if (!ret)
		ret = resolve(set, list, &selection, err);
	if (!ret)
		*any = selection.n || function_set_awaits_module(set);
	function_selection_deinit(&selection);
	function_set_destroy(set);
	return ret;
}

int functions_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			  struct error *err)
{
	struct traceable_list list = {.no_modules = true};
	bool any = true;
	int ret = traceable_list_add_image(&list, image, 0, err);

	if (!ret)
		ret = functions_resolve(spec, &list, &any, err);
	traceable_list_deinit(&list);
	return ret || any ? ret : no_function(spec, err);
}

static int too_many(unsigned int column, const char *what, struct error *err)
{
	return error_set_column(
		err, E2BIG, column,
		"trace spec, character %u: with %s the guest would make more than %d "
		"comparisons: %d pids take all, and those that follow each other "
		"count as two at most",
		column, what, GATE_MAX_TERMS, MOST_APART);
}

/* One of these values of a source, ascending. */
static int add_list(struct gate *gate, enum gate_source source, const uint64_t *values, size_t n)
{
	struct gate list = {0};
	int ret = gate_append_list(&list, gate_term(source, GATE_EQ, 0), values, n, NULL);

	return ret ? ret : gate_conjoin(gate, &list, NULL);
}

static int explain(int ret, unsigned int column, const char *what, struct error *err)
{
	return ret == -E2BIG ? too_many(column, what, err)
	       : ret         ? error_set(err, -ret, "%s: %s", what, strerror(-ret))
			     : 0;
}

int functions_add_pids(struct gate *gate, const struct trace_spec *spec, struct error *err)
{
	uint64_t pids[TRACE_SPEC_MAX_PIDS];

	if (!spec->nr_pids)
		return 0;
	for (size_t i = 0; i < spec->nr_pids; i++)
		pids[i] = spec->pids[i];
	return explain(add_list(gate, GATE_PID, pids, spec->nr_pids), spec->pids_column,
		       "pid=", err);
}

int functions_add_vcpus(struct gate *gate, const struct trace_spec *spec, struct error *err)
{
	uint64_t vcpus[TRACE_SPEC_MAX_VCPUS];
	size_t n = 0;

	if (spec->vcpus == UINT64_MAX)
		return 0;
	for (uint64_t left = spec->vcpus; left; left &= left - 1)
		vcpus[n++] = (uint64_t)__builtin_ctzll(left);
	return explain(add_list(gate, GATE_VCPU, vcpus, n), spec->vcpus_column, "vcpu=", err);
}

int functions_add_condition(struct gate *gate, const struct trace_spec *spec,
			    const struct gate *condition, struct error *err)
{
	return explain(gate_conjoin(gate, condition, NULL), trace_spec_filter_column(spec, 1),
		       "the condition", err);
}

int functions_check_numbers(const struct trace_spec *spec, struct error *err)
{
	struct gate gate = {0};
	int ret = functions_add_pids(&gate, spec, err);

	return ret ? ret : functions_add_vcpus(&gate, spec, err);
}

/* --- calls with their returns ---------------------------------------------------------------- */

static int split_condition(const struct trace_spec *spec, const struct event_class *class,
			   const struct event_names *names, struct gate_split *split, char *rest,
			   size_t size, struct error *err)
{
	static const struct gate_field fields[] = {
		{.name = "pid", .source = GATE_PID, .size = 4},
		{.name = "tgid", .source = GATE_TGID, .size = 4},
		{.name = "parent_ip", .source = GATE_CALL_SITE, .size = 8},
	};
	struct event_predicate *predicate;
	int ret = event_filter_bind(spec->filter, class, names, &predicate, err);

	if (ret)
		return ret;
	gate_split(predicate, fields, sizeof(fields) / sizeof(fields[0]), split);
	gate_split_print(split, predicate, false, rest, size);
	event_predicate_destroy(predicate);
	return 0;
}

static int refuse(const struct trace_spec *spec, const struct event_class *class, const char *rest,
		  const char *readers, struct error *err)
{
	return error_set_column(
		err, ENOTSUP, trace_spec_filter_column(spec, 1),
		"filter: the guest decides of a call and of its return alike, by %s: it cannot "
		"decide '%s'%s%s",
		event_field_find(class, "parent_ip") ? "pid and tgid as numbers, and parent_ip as "
						       "a number or as functions in up to 32 "
						       "places"
						     : "pid and tgid as numbers",
		rest, readers ? ". Choose when you read the trace: " : "", readers ? readers : "");
}

/* What the guest decides of calls. */
static int make_split(const struct trace_spec *spec, const struct event_class *class,
		      const struct kernel_image *image, uint64_t slide, const char *readers,
		      struct gate_split *split, struct error *err)
{
	struct condition_names known;
	char rest[160];
	int ret;

	condition_names_init(&known, image, slide);
	ret = trace_spec_check_filter(spec, class, &known.names, err);
	if (!ret)
		ret = split_condition(spec, class, &known.names, split, rest, sizeof(rest), err);
	return ret || split->whole ? ret : refuse(spec, class, rest, readers, err);
}

int functions_check_calls(const struct trace_spec *spec, const struct event_class *class,
			  const struct kernel_image *image, const char *readers, struct error *err)
{
	struct gate_split split;
	struct gate gate = {0};
	int ret = functions_add_pids(&gate, spec, err);

	if (ret || !spec->filter)
		return ret;
	ret = make_split(spec, class, image, 0, readers, &split, err);
	return ret ? ret : functions_add_condition(&gate, spec, &split.gate, err);
}

int functions_add_calls(struct gate *gate, const struct kernel *kernel,
			const struct trace_spec *spec, const struct event_class *class,
			struct error *err)
{
	struct gate_split split;
	int ret = functions_add_pids(gate, spec, err);

	if (ret || !spec->filter)
		return ret;
	ret = make_split(spec, class, kernel->image, kernel->virt_slide, NULL, &split, err);
	return ret ? ret : functions_add_condition(gate, spec, &split.gate, err);
}

void functions_call_conditions(const struct tracer *tracer, const struct trace_spec *spec,
			       enum tracer_decider decider, char *out, size_t size)
{
	(void)tracer;
	*out = '\0';
	if (decider == DECIDED_BY_GUEST)
		trace_spec_print_conditions(spec, out, size);
}
