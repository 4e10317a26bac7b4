/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/plan/site-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The patch at exactly this address, at *i or behind; NULL: none. *i follows. */
static const struct patch *advance(const struct patch_set *set, size_t *i, uint64_t gva)
{
	while (*i < set->n && set->v[*i].gva < gva)
		(*i)++;
	return *i < set->n && set->v[*i].gva == gva ? &set->v[*i] : NULL;
}

/* A site that was yielded and is a NOP is another one: its module was loaded again. */
static bool stands(const struct patch *patch, const struct site *site)
{
	if (patch->yielded)
		return site->state != SITE_NOP;
	return !memcmp(site->bytes, patch->new_bytes, SITE_SIZE);
}

static void fill_new(struct shared_site *out, const struct site *site, bool ftrace_handoff)
{
	static const uint8_t nop[SITE_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	bool held = site->name && site->state == SITE_CALL_OTHER && ftrace_handoff;

	out->patch = (struct patch){.gva = site->gva,
				    .size = SITE_SIZE,
				    .yielded = held,
				    .transient = site->transient,
				    .holder = site->state};
	/* what ftrace will put back */
	memcpy(out->patch.old_bytes, held ? nop : site->bytes, SITE_SIZE);
	if (!held)
		out->refusal = site_table_refusal(site);
}

int shared_sites_make(struct shared_sites *sites, const struct site_table *table,
		      const struct patch_plan *plan, bool ftrace_handoff, struct error *err)
{
	const uint64_t begin = table->n ? table->v[0].gva : 0;
	size_t shared = patch_set_find(&plan->shared, begin);
	size_t entry = patch_set_find(&plan->entries, begin);
	int ret = 0;

	*sites = (struct shared_sites){.budget = table->budget};
	sites->v = budget_calloc(sites->budget, table->n + 1, sizeof(*sites->v));
	if (!sites->v)
		return error_set(err, ENOMEM, "no memory for the patches of %zu sites", table->n);
	sites->n = table->n;
	for (size_t i = 0; !ret && i < table->n; i++) {
		const struct site *site = &table->v[i];
		struct shared_site *out = &sites->v[i];
		const struct patch *ours = advance(&plan->shared, &shared, site->gva);
		const struct patch *probe = advance(&plan->entries, &entry, site->gva);

		out->entry = probe ? entry : SHARED_NO_ENTRY;
		if (ours && stands(ours, site)) {
			out->patch = *ours;
			ret = patch_set_add(&sites->present, ours, err);
		} else if (probe && !probe->off) {
			out->patch = *probe;
		} else {
			fill_new(out, site, ftrace_handoff);
		}
		out->patch.function = site->name;
	}
	return ret ? ret : patch_set_sort(&sites->present, err);
}

void shared_sites_deinit(struct shared_sites *sites)
{
	patch_set_deinit(&sites->present);
	budget_free(sites->budget, sites->v, (sites->n + 1) * sizeof(*sites->v));
	*sites = (struct shared_sites){0};
}
