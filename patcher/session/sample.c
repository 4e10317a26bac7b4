/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Traps that come too often go for a time (sampler.h). */
#include "patcher/session/internal.h"

static uint64_t now_ns(const struct trace_session *s)
{
	return s->guest->clock->now_ns(s->guest);
}

void session_sample(struct trace_session *s, enum trap_kind kind)
{
	struct guest *guest = s->guest;
	struct error err;

	if (!s->options.max_rate ||
	    !sampler_is_over(&s->sampler, kind == TRAP_ENTRY, call_table_is_open(s->stash),
			     now_ns(s)) ||
	    guest->control->stop(guest, NULL))
		return;
	if (patch_plan_revert(&s->plan, &s->kernel, NULL, &err))
		first_error_set(&s->failure, &err);
	else
		sampler_out(&s->sampler, now_ns(s));
	guest->control->resume(guest, NULL);
}

void session_gap(struct trace_session *s, uint64_t ns)
{
	/* no return whose entry was not seen may meet a call from before */
	session_forget_open_calls(s);
	sampler_gap(&s->sampler, ns);
}

/* While the guest's own ftrace has the sites, they are not to be put back. */
static int put_back(struct trace_session *s, struct error *err)
{
	int ret;

	if (s->yield.out)
		return 0;
	/* no return whose entry was not seen may meet a call from before the traps went */
	session_forget_open_calls(s);
	ret = patch_plan_apply(&s->plan, &s->kernel, err);
	if (!ret)
		sampler_in(&s->sampler, now_ns(s));
	return ret;
}

int trace_session_tick(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret;

	if (!s->enabled || !sampler_is_due(&s->sampler, now_ns(s)))
		return 0;
	ret = guest->control->stop(guest, err);
	if (ret)
		return ret;
	ret = put_back(s, err);
	guest->control->resume(guest, NULL);
	return ret;
}
