/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patches of a plan that no instance wants now: out of the text, and ready to come in. */
#include <string.h>
#include "patcher/plan/patch-plan.h"

/* The patch that begins at `gva`, by index as of patch_plan_find_off(). */
static size_t find_patch(const struct patch_plan *plan, uint64_t gva)
{
	size_t i = patch_set_find(&plan->entries, gva);

	if (i < plan->entries.n && plan->entries.v[i].gva == gva)
		return i;
	return plan->entries.n + patch_set_find(&plan->returns, gva);
}

void patch_plan_find_off(const struct patch_plan *plan, const bool *off, bool *out)
{
	memset(out, true, (plan->entries.n + plan->returns.n) * sizeof(*out));
	for (size_t i = 0; i < plan->nr_uses; i++)
		if (!off[plan->uses[i].ref])
			out[find_patch(plan, plan->uses[i].gva)] = false;
}

static void set_off(struct patch_set *set, const bool *off)
{
	for (size_t i = 0; i < set->n; i++)
		set->v[i].off = off[i];
}

void patch_plan_set_off(struct patch_plan *plan, const bool *off)
{
	set_off(&plan->entries, off);
	set_off(&plan->returns, off + plan->entries.n);
}

/* Copy the patches whose `off` changes to this value. */
static int copy_changed(const struct patch_set *set, const bool *off, bool to,
			struct patch_set *out, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && set->applied && i < set->n; i++) {
		struct patch patch = set->v[i];

		if (patch.off == off[i] || off[i] != to)
			continue;
		patch.off = false;
		ret = patch_set_add(out, &patch, err);
	}
	return ret;
}

static int copy_both(const struct patch_plan *plan, const bool *off, bool to, struct patch_set *out,
		     struct error *err)
{
	int ret = copy_changed(&plan->entries, off, to, out, err);

	if (!ret)
		ret = copy_changed(&plan->returns, off + plan->entries.n, to, out, err);
	return ret ? ret : patch_set_sort(out, err);
}

int patch_plan_change(struct patch_plan *plan, const bool *off, const struct kernel *kernel,
		      struct error *err)
{
	struct patch_set going = {0}, coming = {0};
	int ret = copy_both(plan, off, true, &going, err);

	if (!ret)
		ret = copy_both(plan, off, false, &coming, err);
	going.applied = true;
	if (!ret)
		ret = patch_set_revert(&going, kernel, NULL, err);
	if (!ret)
		ret = patch_set_apply(&coming, kernel, err);
	going.vacant = true;
	if (ret)
		patch_set_apply(&going, kernel, NULL);
	else
		patch_plan_set_off(plan, off);
	patch_set_deinit(&coming);
	patch_set_deinit(&going);
	return ret;
}

static void drop_off(struct patch_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		if (!set->v[i].off)
			set->v[n++] = set->v[i];
	set->n = n;
}

void patch_plan_drop_off(struct patch_plan *plan)
{
	size_t n = 0;

	drop_off(&plan->entries);
	drop_off(&plan->returns);
	for (size_t i = 0; i < plan->nr_refused; i++)
		if (!plan->refs[plan->refused[i].ref].off)
			plan->refused[n++] = plan->refused[i];
	plan->nr_refused = n;
}

uint32_t patch_plan_ref_at(const struct patch_plan *plan, uint64_t gva)
{
	for (size_t i = 0; i < plan->nr_uses; i++)
		if (plan->uses[i].gva == gva)
			return plan->uses[i].ref;
	return UINT32_MAX;
}

uint64_t patch_plan_site_of(const struct patch_plan *plan, uint32_t ref)
{
	/* a probe's entry comes before its returns */
	for (size_t i = 0; i < plan->nr_uses; i++)
		if (plan->uses[i].ref == ref)
			return plan->uses[i].gva;
	return 0;
}
