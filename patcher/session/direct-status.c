/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which sites of the direct lane's instances are patched, and which the guest holds. */
#include <stdlib.h>
#include "patcher/session/internal.h"

static bool is_wanted(const struct trace_session *s, const struct session_instance *instance,
		      uint64_t gva)
{
	const size_t i = site_table_find(&s->sites, gva);

	return i < s->sites.n && s->sites.v[i].gva == gva && instance->wanted[i];
}

static void add_refused(struct session_instance *instance, const struct site_refusal *why)
{
	if (!site_refusals_add(&instance->refused, why))
		instance->sites--;
}

static void add_held(struct session_instance *instance, const struct patch *patch)
{
	const struct site_refusal why = ftrace_site_refusal(patch);

	add_refused(instance, &why);
}

/* One that the guest has put a kprobe at is its own until tracing starts anew. */
static void count_inside(const struct trace_session *s, struct session_instance *instance)
{
	const uint64_t gva = instance->active ? inside_of(instance) : 0;
	const struct patch *patch = gva ? patch_set_at(&s->plan.inside, gva) : NULL;
	struct site_refusal why;

	if (!patch || !patch->yielded)
		return;
	why = site_refuse(patch->function, gva, "a kprobe of the guest is at this instruction");
	add_refused(instance, &why);
}

void direct_count_sites(const struct trace_session *s, struct session_instance *instance)
{
	const struct patch_set *const sets[] = {&s->plan.shared, &s->plan.entries};

	instance->sites = instance->planned;
	instance->refused.n = instance->planned_refused;
	for (size_t k = 0; instance->active && k < sizeof(sets) / sizeof(sets[0]); k++)
		for (size_t i = 0; i < sets[k]->n; i++) {
			const struct patch *patch = &sets[k]->v[i];

			if (!patch->off && ftrace_site_is_held(patch) &&
			    is_wanted(s, instance, patch->gva))
				add_held(instance, patch);
		}
	count_inside(s, instance);
}
