/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Other instances, of both lanes, while tracing is on: one stop at most. */
#include <errno.h>
#include <string.h>
#include "patcher/session/internal.h"

static bool is_direct(const struct session_instance *instance)
{
	return instance->ops->lane == LANE_DIRECT;
}

/* The instances of the direct lane, in order. */
static size_t list_direct(const struct instance_list *list, const struct session_instance **out)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (is_direct(list->v[i]))
			out[n++] = list->v[i];
	return n;
}

static bool same_direct(const struct instance_list *a, const struct instance_list *b)
{
	const struct session_instance *x[TRACE_MAX_INSTANCES], *y[TRACE_MAX_INSTANCES];
	size_t n = list_direct(a, x);

	return n == list_direct(b, y) && !memcmp(x, y, n * sizeof(x[0]));
}

/* The engine may have taken its memory away. */
static int check_engine(const struct trace_session *s, struct error *err)
{
	if (!s->withdrawn)
		return 0;
	return error_set(err, EBUSY,
			 "a stop has failed half-way, and the patches are out: tracing can only be "
			 "stopped again");
}

/* Traps do not record the direct lane. Until it is known that rings do not come, its instances
 * wait. */
static int check_rings(const struct trace_session *s, const struct instance_list *next,
		       struct error *err)
{
	if (s->switch_pending || s->engine == s->ring_engine || same_direct(&s->instances, next) ||
	    !instances_have_direct(next))
		return 0;
	return direct_no_rings(s, err);
}

static bool has_rings(const struct trace_session *s)
{
	return s->ring_engine && s->engine == s->ring_engine;
}

/* `c` may be NULL: the ordered lane goes on. */
static int change_rings(struct trace_session *s, struct instance_list *next,
			struct ordered_change *c, struct error *err)
{
	bool direct = !same_direct(&s->instances, next) ||
		      (s->direct_pending && instances_have_direct(next));
	int ret = 0;

	if (direct) {
		/* what has come before the change is not the change's: it is counted */
		modules_follow(s, NULL);
		ret = direct_apply(s, next, c, err);
	} else if (c && ordered_patches_change(c))
		ret = direct_keep_wants(s, c, err);
	if (ret)
		return ret;
	if (direct) {
		s->direct_pending = false;
		s->direct_failure.code = 0;
	}
	if (c)
		ordered_settle(s, c);
	return 0;
}

/* With the guest stopped. -ESTALE: rings have come. */
static int change_stopped(struct trace_session *s, struct ordered_change *c, struct error *err)
{
	int ret = -ESTALE;

	session_find_stacks(s);
	if (!has_rings(s))
		ret = patch_plan_change(&s->plan, ordered_off(c), &s->kernel, err);
	if (!ret) {
		ordered_adopt(c);
		ordered_settle(s, c);
	}
	return ret;
}

/* While rings may come in any trap, only a stop keeps them away. */
static int change_traps(struct trace_session *s, struct ordered_change *c, struct error *err)
{
	int ret;

	if (!ordered_patches_change(c) && !s->switch_pending) {
		ordered_settle(s, c);
		return 0;
	}
	ret = text_locks_stop(&s->kernel, err);
	if (ret)
		return ret;
	ret = change_stopped(s, c, err);
	s->guest->control->resume(s->guest, NULL);
	return ret;
}

static int apply(struct trace_session *s, struct instance_list *next, struct ordered_change *c,
		 struct error *err)
{
	int ret;

	if (!has_rings(s)) {
		ret = c ? change_traps(s, c, err) : 0;
		if (ret != -ESTALE || !has_rings(s))
			return ret;
	}
	return change_rings(s, next, c, err);
}

/* What no instance asks for any more is captured until a change has taken effect. Nobody but the
 * guest's CPUs notices if this fails: the next change tries it again. */
static void narrow(struct trace_session *s, const struct instance_list *list)
{
	struct ordered_change *c = NULL;
	int ret;

	if (!s->narrow_due || ordered_is_pending(s))
		return;
	s->narrow_due = false;
	if (ordered_prepare_narrow(s, list, &c) || !c)
		return;
	if (!has_rings(s)) {
		ret = change_traps(s, c, NULL);
	} else {
		ret = direct_keep_wants(s, c, NULL);
		if (!ret)
			ordered_settle(s, c);
	}
	if (ret)
		ordered_discard(c);
}

void session_narrow(struct trace_session *s)
{
	narrow(s, &s->instances);
}

int session_change(struct trace_session *s, struct instance_list *next, struct error *err)
{
	struct ordered_change *c = NULL;
	unsigned int tries = 0;
	int ret = check_engine(s, err);

	if (!ret)
		ret = check_rings(s, next, err);
	if (!ret)
		ret = direct_check_functions(s, next, err);
	if (!ret)
		ret = instances_await_names(s, next, err);
	if (!ret)
		ret = instances_prepare(s, next, &s->instances, err);
	if (!ret)
		ret = ordered_prepare(s, next, &c, err);
	if (!ret && c)
		ordered_begin(c);
	if (!ret)
		do
			ret = apply(s, next, c, err);
		while (ret == -ETXTBSY && session_tries_again(&tries));
	if (ret && c)
		ordered_discard(c);
	if (ret || !c)
		return ret;
	s->narrow_due = true;
	ordered_await(s);
	narrow(s, next);
	ordered_await(s);
	return 0;
}
