/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was seen of the guest becomes calls of the tracers. */
#include "patcher/session/internal.h"

static void await_return(struct trace_session *s, const struct probe_ref *ref,
			 const struct probe_hit *hit)
{
	struct call_table_push_result pushed;
	struct open_call call = {.key = hit->key,
				 .tracer = ref->tracer,
				 .probe = ref->probe,
				 .call_site = hit->call_site};

	memcpy(call.words, hit->args, sizeof(call.words));
	ref->tracer->ops->entry(ref->tracer, ref->probe, hit, &call);
	if (call_table_push(s->stash, &call, &pushed))
		count_event(&s->counters, COUNTER_LOST, 1);
	count_event(&s->counters, COUNTER_NESTED, pushed.superseded);
	count_event(&s->counters, COUNTER_LOST, pushed.lost);
}

/* A bulk call's return may come in several hits, each of which tells of some of its objects. */
static bool is_last_hit(struct open_call *call, const struct probe_hit *hit)
{
	uint64_t all = hit->saved ? (uint32_t)hit->result - (hit->saved - 1) : 0;

	call->items_seen += hit->nr_items;
	return !hit->nr_items || call->items_seen >= all;
}

static void on_return(struct trace_session *s, const struct probe_hit *hit)
{
	struct call_table_push_result pushed;
	struct open_call call;
	struct tracer *tracer;

	if (!call_table_pop(s->stash, hit->key, &call)) {
		count_event(&s->counters, COUNTER_UNPAIRED_RETURNS, 1);
		return;
	}
	if (call.ignored)
		return;
	tracer = call.tracer;
	if (tracer->ops->ret(tracer, call.probe, hit, &call))
		call_table_note_inner(s->stash, hit->key, hit->result);
	if (!is_last_hit(&call, hit) && call_table_push(s->stash, &call, &pushed))
		count_event(&s->counters, COUNTER_LOST, 1);
}

void session_dispatch(struct trace_session *s, const struct probe_ref *ref, enum probe_point point,
		      const struct probe_hit *hit)
{
	if (point == POINT_RETURN)
		on_return(s, hit);
	else if (ref->probe->wants_return)
		await_return(s, ref, hit);
	else
		ref->tracer->ops->entry(ref->tracer, ref->probe, hit, NULL);
}

void session_save_array(struct trace_session *s, const struct capture_items *items,
			const struct probe_hit *hit)
{
	struct call_table_push_result pushed;
	struct open_call call = {.key = hit->key};
	uint64_t array = hit->args[items->pointer];
	uint32_t count = (uint32_t)hit->args[items->count];

	if (!array)
		return;
	call.words[0] = array;
	if (items->skip_filled)
		call.words[1] = object_iter_filled(&s->kernel, array, count);
	if (call_table_push(s->saved_arrays, &call, &pushed))
		count_event(&s->counters, COUNTER_LOST, 1);
}

/* The words that are the call's work, and how many lie in front of them. Its entry was a trap or a
 * trampoline. */
static bool find_saved_array(struct trace_session *s, uint64_t key, uint64_t *words, uint64_t *skip)
{
	struct open_call call;

	if (s->exitless && ring_engine_take_saved_array(s->exitless, key, words, skip))
		return true;
	if (!call_table_pop(s->saved_arrays, key, &call))
		return false;
	*skip = call.words[1];
	*words = call.words[0] + *skip * sizeof(uint64_t);
	return true;
}

void session_saved_array(struct trace_session *s, struct probe_hit *hit, struct object_iter *items)
{
	uint32_t count = (uint32_t)hit->result;
	uint64_t words, skip;

	if (!find_saved_array(s, hit->key, &words, &skip))
		return;
	hit->saved = 1 + skip;
	if (count > CAPTURE_ITEMS_PER_CALL || count <= skip)
		return;
	items->from = ITEMS_ARRAY;
	items->at = words;
	items->count = count - skip;
}

void session_submit(struct trace_session *s, const struct probe_ref *ref, enum probe_point point,
		    const struct probe_hit *hit)
{
	if (s->exitless)
		ring_engine_put(s->exitless, ref, point, hit);
	else
		session_dispatch(s, ref, point, hit);
}
