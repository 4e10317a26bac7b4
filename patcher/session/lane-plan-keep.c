/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a plan that is in the text leaves with the session and its instances. */
#include <stdlib.h>
#include "patcher/session/lane-plan.h"

/* Those of the image stay where only modules were planned. */
static void keep_tails(struct lane_plan *p, size_t i)
{
	if (p->part)
		return;
	function_tails_destroy(p->instances[i]->tails);
	p->instances[i]->tails = p->tails[i];
	p->tails[i] = NULL;
}

/* What was said of it when it was planned first is true of it later. */
static void keep_words(struct lane_plan *p, size_t i)
{
	struct session_instance *instance = p->instances[i];

	instance->failure = p->failures[i];
	if (instance->active)
		return;
	function_notes_deinit(&instance->notes);
	instance->notes = p->notes[i];
	p->notes[i] = (struct function_notes){0};
}

void lane_plan_keep(struct lane_plan *p, bool active)
{
	struct trace_session *s = p->session;

	for (size_t i = 0; i < p->n; i++) {
		struct session_instance *instance = p->instances[i];

		site_refusals_deinit(&instance->refused);
		free(instance->wanted);
		instance->refused = p->refused[i];
		instance->planned_refused = p->refused[i].n;
		instance->planned = p->nr_sites[i];
		instance->planned_outside = p->nr_outside[i];
		instance->wanted = p->chosen[i];
		keep_words(p, i);
		instance->active = active && !instance->failure.code;
		instance->begun |= instance->active;
		p->refused[i] = (struct site_refusals){0};
		p->chosen[i] = NULL;
		keep_tails(p, i);
	}
	s->learn_tries = 0;
	s->modules_lead_in = p->leads_in;
	s->slots_seen =
		p->exits.exits ? p->exits.seen : (struct module_slots_seen){.complete = true};
	site_table_deinit(&s->sites);
	s->sites = p->table;
	p->table = (struct site_table){0};
	session_keep_names(s, p->names);
	p->names = NULL;
}
