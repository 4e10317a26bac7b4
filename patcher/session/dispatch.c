/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was seen of the guest becomes calls of the tracers. */
#include "patcher/session/internal.h"

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

/* A bulk call's return may come in several hits, each of which tells of some of its objects. */
static bool is_last_hit(struct stash_entry *call, const struct probe_hit *hit)
{
	uint64_t all = hit->kept ? (uint32_t)hit->result - (hit->kept - 1) : 0;

	call->items_seen += hit->nr_items;
	return !hit->nr_items || call->items_seen >= all;
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
	if (!is_last_hit(&call, hit) && stash_push(s->stash, &call, &pushed))
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

void session_keep_array(struct trace_session *s, const struct capture_items *items,
			const struct probe_hit *hit)
{
	struct stash_push_result pushed;
	struct stash_entry call = {.key = hit->key};
	uint64_t array = hit->args[items->pointer];
	uint32_t count = (uint32_t)hit->args[items->count];

	if (!array)
		return;
	call.words[0] = array;
	if (items->skip_filled)
		call.words[1] = item_source_filled(&s->kernel, array, count);
	if (stash_push(s->kept, &call, &pushed))
		count_event(&s->counters.lost, 1);
}

/* The words that are the call's work, and how many lie in front of them. Its entry was a trap or a
 * trampoline. */
static bool find_kept(struct trace_session *s, uint64_t key, uint64_t *words, uint64_t *skip)
{
	struct stash_entry call;

	if (s->exitless && exitless_take_kept(s->exitless, key, words, skip))
		return true;
	if (!stash_pop(s->kept, key, &call))
		return false;
	*skip = call.words[1];
	*words = call.words[0] + *skip * sizeof(uint64_t);
	return true;
}

void session_kept_array(struct trace_session *s, struct probe_hit *hit, struct item_source *items)
{
	uint32_t count = (uint32_t)hit->result;
	uint64_t words, skip;

	if (!find_kept(s, hit->key, &words, &skip))
		return;
	hit->kept = 1 + skip;
	if (count > CAPTURE_ITEMS_PER_CALL || count <= skip)
		return;
	items->from = ITEMS_ARRAY;
	items->at = words;
	items->count = count - skip;
}

void session_deliver(struct trace_session *s, const struct probe_ref *ref,
		     enum ring_record_kind kind, const struct probe_hit *hit)
{
	if (s->exitless)
		exitless_put(s->exitless, ref, kind, hit);
	else
		session_handle(s, ref, kind, hit);
}
