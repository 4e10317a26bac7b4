/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the ordered lane records: changed while hits come, between two of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "patcher/session/internal.h"

enum {
	EFFECT_TRIES = 2000, /* of a millisecond, until the hits of before are emitted */
};

/*
 * Probes that come are off until the change takes effect, and probes that go are on until all their
 * hits are emitted. In between the instances of before get the hits.
 */
struct ordered_change {
	struct trace_session *session;
	struct tracer_change tracers;
	bool *off;          /* by the plan's patches */
	struct pid_gate pids;
	atomic_bool effect; /* it is in use: what it has now are the former instances */
};

/* Probes that go, from before their patches do. */
static void set_leaving(struct ordered_change *c, bool leaving)
{
	struct tracer_set *set = &c->session->tracers;

	for (size_t i = 0; i < set->nr_refs; i++)
		atomic_store(&set->refs[i].leaving, leaving && c->tracers.off[i]);
}

static void destroy(struct ordered_change *c)
{
	if (!c)
		return;
	set_leaving(c, false);
	tracer_change_deinit(&c->session->tracers, &c->tracers);
	free(c->off);
	free(c);
}

static bool same_specs(const struct trace_session *s, const struct instance_list *a,
		       const struct instance_list *b)
{
	struct tracer_stream streams[TRACE_MAX_INSTANCES];
	const char *x[TRACE_MAX_INSTANCES], *y[TRACE_MAX_INSTANCES];
	size_t n = instances_ordered(s, a, x, streams), m = instances_ordered(s, b, y, streams);
	bool same = n == m;

	for (size_t i = 0; same && i < n; i++)
		same = !strcmp(x[i], y[i]);
	return same;
}

/* --- preparing ------------------------------------------------------------------------------- */

/* The first refusal of a probe that is wanted; NULL: none. */
static const struct site_refusal *first_refusal(const struct trace_session *s, const bool *off)
{
	for (size_t i = 0; i < s->plan.nr_refused; i++)
		if (!off[s->plan.refused[i].ref])
			return &s->plan.refused[i];
	return NULL;
}

static int find_patches(struct trace_session *s, struct ordered_change *c, struct error *err)
{
	const struct patch_plan *plan = &s->plan;
	const struct site_refusal *first = first_refusal(s, c->tracers.off);
	bool any = !first;

	c->off = calloc(plan->entries.n + plan->returns.n + 1, sizeof(*c->off));
	if (!c->off)
		return error_set(err, ENOMEM, "out of memory");
	patch_plan_find_off(plan, c->tracers.off, c->off);
	for (size_t i = 0; !any && i < plan->entries.n; i++)
		any = !c->off[i];
	if (any)
		return 0;
	return error_set_at(err, ENOENT, first->gva, "no function can be traced: %s: %s",
			    first->function, first->reason);
}

static int make(struct trace_session *s, const struct instance_list *next,
		enum tracer_capture capture, struct ordered_change **out, struct error *err)
{
	struct tracer_stream streams[TRACE_MAX_INSTANCES];
	const char *specs[TRACE_MAX_INSTANCES];
	const size_t n = instances_ordered(s, next, specs, streams);
	struct ordered_change *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->session = s;
	pids_of(next, &c->pids);
	ret = tracer_set_prepare(&s->tracers, specs, streams, n, capture, &c->tracers, err);
	if (!ret)
		ret = find_patches(s, c, err);
	if (ret)
		destroy(c);
	else
		*out = c;
	return ret;
}

int ordered_prepare(struct trace_session *s, const struct instance_list *next,
		    struct ordered_change **out, struct error *err)
{
	*out = NULL;
	if (same_specs(s, &s->instances, next))
		return 0;
	if (!ordered_await(s))
		return error_set(err, EAGAIN,
				 "the change before takes effect when the guest runs on");
	return make(s, next, TRACER_CAPTURES_ALSO, out, err);
}

int ordered_prepare_narrow(struct trace_session *s, const struct instance_list *next,
			   struct ordered_change **out)
{
	int ret = make(s, next, TRACER_CAPTURES_ONLY, out, NULL);

	if (ret || ordered_view(*out))
		return ret;
	destroy(*out);
	*out = NULL;
	return 0;
}

void ordered_begin(struct ordered_change *c)
{
	set_leaving(c, true);
}

void ordered_discard(struct ordered_change *c)
{
	destroy(c);
}

const bool *ordered_off(const struct ordered_change *c)
{
	return c ? c->off : NULL;
}

const struct probe_view *ordered_view(const struct ordered_change *c)
{
	return c && c->tracers.view.number != c->session->plan.view ? &c->tracers.view : NULL;
}

void ordered_adopt(struct ordered_change *c)
{
	const struct probe_view *view = ordered_view(c);
	struct trace_session *s;

	if (!view)
		return;
	s = c->session;
	tracer_set_adopt(&s->tracers, &c->tracers);
	patch_plan_set_view(&s->plan, &s->traps, view);
}

bool ordered_patches_change(const struct ordered_change *c)
{
	const struct patch_plan *plan = &c->session->plan;
	const bool *off = c->off;
	bool change = ordered_view(c);

	for (size_t i = 0; i < plan->entries.n; i++)
		change |= plan->entries.v[i].off != off[i];
	for (size_t i = 0; i < plan->returns.n; i++)
		change |= plan->returns.v[i].off != off[plan->entries.n + i];
	return change;
}

void ordered_forget(struct trace_session *s)
{
	destroy(s->ordered);
	s->ordered = NULL;
}

/* --- taking effect ---------------------------------------------------------------------------- */

static const struct probe_ref *ref_of(const struct trace_session *s, const struct open_call *call)
{
	for (size_t i = 0; i < s->tracers.nr_refs; i++)
		if (s->tracers.refs[i].probe == call->probe)
			return &s->tracers.refs[i];
	return NULL;
}

static bool is_off(const struct trace_session *s, const struct open_call *call)
{
	const struct probe_ref *ref = ref_of(s, call);

	return ref && ref->off;
}

bool ordered_is_leaving(void *session, const struct open_call *call)
{
	const struct probe_ref *ref = ref_of(session, call);

	return ref && ref->leaving;
}

/* Its return is not recorded any more. A later call with the same key must not get its arguments.
 */
static bool forget_call(void *arg, const struct open_call *call)
{
	struct trace_session *s = arg;

	if (!is_off(s, call) && pids_want(s, call->task.pid))
		return false;
	session_forget_array(s, call->probe, call->key);
	return true;
}

static void take_effect(void *arg)
{
	struct ordered_change *c = arg;
	struct trace_session *s = c->session;

	tracer_set_use(&s->tracers, &c->tracers);
	pids_take_effect(s, &c->pids);
	count_event(&s->counters, COUNTER_IN_FLIGHT, call_table_drop(s->calls, forget_call, s));
	atomic_store(&c->effect, true);
}

void ordered_settle(struct trace_session *s, struct ordered_change *c)
{
	struct engine *engine = s->engine;

	tracer_set_take_gaps(&s->tracers, &c->tracers);
	s->ordered = c;
	pids_change(s, &c->pids);
	engine->ops->settle(engine, take_effect, c);
}

bool ordered_await(struct trace_session *s)
{
	for (int i = 0; i < EFFECT_TRIES && ordered_is_pending(s); i++)
		clock_wait_ms(1);
	return !ordered_is_pending(s);
}

bool ordered_is_pending(struct trace_session *s)
{
	if (!s->ordered)
		return false;
	if (!atomic_load(&s->ordered->effect))
		return true;
	destroy(s->ordered);
	s->ordered = NULL;
	return false;
}
