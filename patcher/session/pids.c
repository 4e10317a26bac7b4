/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Of which tasks the ordered lane's instances want calls. Where the trampolines have a pid gate, the
 * guest does not write what none of them wants. Whether they have one is decided when tracing
 * begins; which tasks pass changes with the instances. The tracers look at each record again.
 */
#include <string.h>
#include "patcher/session/internal.h"

static void add_pids(struct pid_gate *gate, const struct trace_spec *spec)
{
	if (!spec->nr_pids) {
		gate->all = true;
		memset(gate->pass, true, sizeof(gate->pass));
	}
	for (size_t i = 0; i < spec->nr_pids; i++)
		gate->pass[spec->pids[i] % PID_GATE_BUCKETS] = true;
}

void pids_of(const struct instance_list *list, struct pid_gate *out)
{
	*out = (struct pid_gate){.on = false};
	for (size_t i = 0; i < list->n; i++) {
		if (list->v[i]->ops->lane != LANE_ORDERED)
			continue;
		out->on |= list->v[i]->spec.nr_pids != 0;
		add_pids(out, &list->v[i]->spec);
	}
}

void pids_prepare(struct trace_session *s)
{
	pids_of(&s->instances, &s->pids);
	s->pids_in_effect = s->pids;
	s->has_pid_gate = s->plans_pid_gate = false;
}

/* Whether rings would have a gate. */
static bool would_have_gate(const struct trace_session *s)
{
	return s->pids.on && patch_plan_has_room(&s->plan);
}

void pids_plan(struct trace_session *s)
{
	s->plans_pid_gate = s->options.exitless && would_have_gate(s);
}

static bool is_passed_over(void *arg, const struct open_call *call)
{
	if (pids_want(arg, call->task.pid))
		return false;
	session_forget_array(arg, call->probe, call->key);
	return true;
}

/* The returns of calls that a trap has seen, and that no instance wants, are not seen. */
void pids_begin(struct trace_session *s)
{
	struct engine *engine = s->engine;

	s->has_pid_gate = engine->ops->pass_pids && engine->ops->pass_pids(engine);
	if (s->has_pid_gate)
		call_table_drop(s->calls, is_passed_over, s);
}

static bool have_gate(const struct trace_session *s)
{
	if (!s->enabled)
		return s->plans_pid_gate;
	return s->has_pid_gate || (s->switch_pending && would_have_gate(s));
}

bool pids_are_decided(const struct trace_session *s)
{
	return have_gate(s) && !s->pids.all;
}

void pids_change(struct trace_session *s, const struct pid_gate *next)
{
	s->pids.all = next->all;
	memcpy(s->pids.pass, next->pass, sizeof(s->pids.pass));
	if (s->has_pid_gate)
		s->engine->ops->pass_pids(s->engine);
}

void pids_take_effect(struct trace_session *s, const struct pid_gate *next)
{
	memcpy(s->pids_in_effect.pass, next->pass, sizeof(s->pids_in_effect.pass));
}
