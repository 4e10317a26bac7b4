/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was seen of the guest becomes calls of the tracers. */
#include "patcher/session.h"

static void await_return(struct trace_session *s, const struct probe_ref *ref,
			 const struct probe_hit *hit)
{
	struct stash_push_result pushed;
	struct stash_entry call = {.key = hit->key,
				   .tracer = ref->tracer,
				   .probe = ref->probe,
				   .call_site = hit->call_site};

	memcpy(call.words, hit->args, sizeof(call.words));
	ref->tracer->ops->entry(ref->tracer, ref->probe, hit, &call);
	if (stash_push(s->stash, &call, &pushed))
		count_event(&s->counters.lost, 1);
	count_event(&s->counters.nested, pushed.superseded);
	count_event(&s->counters.lost, pushed.lost);
}

static void on_return(struct trace_session *s, const struct probe_hit *hit)
{
	struct stash_push_result pushed;
	struct stash_entry call;
	struct tracer *tracer;

	if (!stash_pop(s->stash, hit->key, &call)) {
		count_event(&s->counters.unpaired_returns, 1);
		return;
	}
	if (call.ignored)
		return;
	tracer = call.tracer;
	if (tracer->ops->ret(tracer, call.probe, hit, &call))
		stash_note_inner(s->stash, hit->key, hit->result);
	if (hit->more && stash_push(s->stash, &call, &pushed))
		count_event(&s->counters.lost, 1);
}

void session_handle(struct trace_session *s, const struct probe_ref *ref,
		    enum ring_record_kind kind, const struct probe_hit *hit)
{
	if (kind == RING_RETURN)
		on_return(s, hit);
	else if (ref->probe->wants_return)
		await_return(s, ref, hit);
	else
		ref->tracer->ops->entry(ref->tracer, ref->probe, hit, NULL);
}

void session_note_call(struct trace_session *s, const struct probe_ref *ref,
		       const struct probe_hit *hit)
{
	struct stash_push_result pushed;
	struct stash_entry call = {.key = hit->key, .probe = ref};

	memcpy(call.words, hit->args, sizeof(call.words));
	if (ref->probe->wants_return && stash_push(s->noted, &call, &pushed))
		count_event(&s->counters.lost, 1);
}

const struct probe_ref *session_noted_call(struct trace_session *s, struct probe_hit *hit)
{
	struct stash_entry call;

	if (!stash_pop(s->noted, hit->key, &call))
		return NULL;
	memcpy(hit->args, call.words, sizeof(hit->args));
	return call.probe;
}

void session_deliver(struct trace_session *s, const struct probe_ref *ref,
		     enum ring_record_kind kind, const struct probe_hit *hit)
{
	session_handle(s, ref, kind, hit);
}
