/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A plan of the modules alone, joined with what is known of the kernel's image. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/session/lane-plan.h"

bool lane_plan_may_be_part(const struct trace_session *s)
{
	bool may = !s->modules_lead_in;

	for (size_t i = 0; i < s->instances.n; i++)
		if (s->instances.v[i]->ops->lane == LANE_DIRECT)
			may &= s->instances.v[i]->active && !instance_is_open(s->instances.v[i]);
	return may;
}

/* --- by site --------------------------------------------------------------------------------- */

static int join_chosen(struct lane_plan *p, size_t k, const struct site_join *join,
		       struct error *err)
{
	const bool *of_image = p->instances[k]->wanted + join->first;
	bool *of_modules = p->chosen[k], *all = calloc(p->table.n + 1, sizeof(*all));
	const size_t behind = join->below + join->kept;

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(all, of_modules, join->below * sizeof(*all));
	memcpy(all + join->below, of_image, join->kept * sizeof(*all));
	memcpy(all + behind, of_modules + join->below, (p->table.n - behind) * sizeof(*all));
	free(of_modules);
	p->chosen[k] = all;
	return 0;
}

/* --- refusals -------------------------------------------------------------------------------- */

static int join_refused(struct lane_plan *p, size_t k, struct error *err)
{
	const struct session_instance *instance = p->instances[k];
	struct site_refusals all = {.budget = p->session->guest->budget};
	int ret = 0;

	for (size_t i = 0; !ret && i < instance->planned_refused; i++)
		if (kernel_in_image(&p->session->kernel, instance->refused.v[i].gva))
			ret = site_refusals_add(&all, &instance->refused.v[i]);
	for (size_t i = 0; !ret && i < p->refused[k].n; i++)
		ret = site_refusals_add(&all, &p->refused[k].v[i]);
	if (ret) {
		site_refusals_deinit(&all);
		return error_set(err, ENOMEM, "out of memory");
	}
	site_refusals_deinit(&p->refused[k]);
	p->refused[k] = all;
	return 0;
}

/* --- all ------------------------------------------------------------------------------------- */

static int join_instance(struct lane_plan *p, size_t k, const struct site_join *join,
			 struct error *err)
{
	const struct session_instance *instance = p->instances[k];
	int ret = join_chosen(p, k, join, err);

	if (!ret)
		ret = join_refused(p, k, err);
	p->nr_sites[k] += instance->planned - instance->planned_outside;
	return ret;
}

/* What is wanted of the image stays as it is only if all still want something. */
static bool leaves_out(const struct lane_plan *p)
{
	bool any = false;

	for (size_t k = 0; k < p->n; k++)
		any |= p->failures[k].code != 0;
	return any;
}

int lane_plan_join(struct lane_plan *p, struct error *err)
{
	const struct site_table *now = &p->session->sites;
	struct site_join join;
	int ret;

	if (p->leads_in || leaves_out(p) || p->table.census.in_image != now->census.in_image)
		return error_set(err, EXDEV, "the kernel's own functions are planned anew");
	ret = site_table_join(&p->table, now, &p->session->kernel, &join, err);
	for (size_t k = 0; !ret && k < p->n; k++)
		ret = join_instance(p, k, &join, err);
	return ret;
}
