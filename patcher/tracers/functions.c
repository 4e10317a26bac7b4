/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/functions.h"

#include <errno.h>

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

/* The image knows all names of its functions; those of modules are the site table's. */
static int list_functions(const struct functions *f, const struct site_table *sites,
			  struct traceable_list *list, struct error *err)
{
	int ret = traceable_list_add_image(list, f->kernel->image, f->kernel->virt_slide, err);

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

int functions_mark(struct function_set *set, const struct traceable_list *list,
		   const struct site_table *sites, bool again, bool *wanted, size_t *n,
		   struct error *err)
{
	struct function_selection selection = {0};
	int ret = (again ? function_set_select : function_set_resolve)(set, list, &selection, err);

	if (!ret)
		*n = mark(&selection, sites, wanted);
	function_selection_deinit(&selection);
	return ret;
}

int functions_select(const struct functions *f, const struct site_table *sites, bool again,
		     bool *wanted, struct error *err)
{
	struct traceable_list list = {0};
	size_t n = 0;
	int ret = list_functions(f, sites, &list, err);

	if (!ret)
		ret = functions_mark(f->set, &list, sites, again, wanted, &n, err);
	if (!ret && !n && !again && !function_set_awaits_module(f->set))
		ret = error_set(err, ENOENT, "'%s' means no function that is loaded now",
				f->spec->text);
	traceable_list_deinit(&list);
	return ret;
}

int functions_add_list(struct gate *gate, enum gate_source source, const uint64_t *values, size_t n,
		       struct error *err)
{
	struct gate list = {0};
	int ret = gate_append_list(&list, gate_term(source, GATE_EQ, 0), values, n, err);

	return ret ? ret : gate_conjoin(gate, &list, err);
}

int functions_add_pids(struct gate *gate, const struct trace_spec *spec, struct error *err)
{
	uint64_t pids[TRACE_SPEC_MAX_PIDS];

	for (size_t i = 0; i < spec->nr_pids; i++)
		pids[i] = spec->pids[i];
	return spec->nr_pids ? functions_add_list(gate, GATE_PID, pids, spec->nr_pids, err) : 0;
}
