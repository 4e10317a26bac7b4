/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes hits to their tracers, and serves vCPUs in traps. */
#include "patcher/session/internal.h"

/* A bulk call's entry may come in several hits, each with some of its items: the call that an
 * earlier one of them has opened. */
static struct open_call *opened_before(struct trace_session *s, const struct probe_ref *ref,
				       const struct probe_hit *hit)
{
	struct open_call *call = hit->nr_items ? call_table_find(s->calls, hit->key) : NULL;

	return call && call->items_at_entry && call->probe == ref->probe ? call : NULL;
}

__attribute__((cold, noinline)) static void
count_pushed(struct trace_session *s, const struct call_table_push_result *pushed,
	     const struct open_call *call)
{
	count_event(&s->counters, COUNTER_NESTED, pushed->superseded);
	count_event(&s->counters, COUNTER_LOST, pushed->lost + !call);
	count_event(&s->counters, COUNTER_IN_FLIGHT, pushed->left);
}

/* NULL if there is no room for it, which is counted. */
static inline struct open_call *open_call(struct trace_session *s, const struct probe_ref *ref,
					  uint64_t key, uint64_t call_site)
{
	struct call_table_push_result pushed;
	struct open_call *call = call_table_push(s->calls, key, &pushed);

	boot_window_note_entry(&s->boot, call_site);
	if (!call || pushed.superseded || pushed.lost || pushed.left)
		count_pushed(s, &pushed, call);
	if (!call)
		return NULL;
	call->tracer = ref->tracer;
	call->probe = ref->probe;
	call->call_site = call_site;
	return call;
}

static void await_return(struct trace_session *s, const struct probe_ref *ref,
			 const struct probe_hit *hit)
{
	struct open_call *call = opened_before(s, ref, hit);

	if (call) {
		call->items_at_entry += hit->nr_items;
		ref->tracer->ops->entry(ref->tracer, ref->probe, hit, call);
		return;
	}
	call = open_call(s, ref, hit->key, hit->call_site);
	if (!call)
		return;
	call->items_at_entry = hit->nr_items;
	memcpy(call->words, hit->args, sizeof(call->words));
	ref->tracer->ops->entry(ref->tracer, ref->probe, hit, call);
}

/* Objects of a bulk call, over all hits of its return up to this one. */
static uint64_t items_seen(const struct open_call *call, const struct probe_hit *hit)
{
	return call->items_seen + hit->nr_items;
}

/* A bulk call's return may come in several hits, each with some of its objects. */
static bool is_last_hit(const struct open_call *call, const struct probe_hit *hit)
{
	return !hit->nr_items || items_seen(call, hit) >= probe_hit_all_items(hit);
}

static void await_next_hit(struct trace_session *s, const struct open_call *popped,
			   const struct probe_hit *hit)
{
	struct open_call call = *popped;
	struct call_table_push_result pushed;
	struct open_call *again = call_table_push(s->calls, hit->key, &pushed);

	call.items_seen = items_seen(&call, hit);
	if (again)
		*again = call;
	else
		count_event(&s->counters, COUNTER_LOST, 1);
}

static void on_return(struct trace_session *s, const struct probe_hit *hit)
{
	const struct open_call *call = call_table_pop(s->calls, hit->key);

	if (!call) {
		count_event(&s->counters, COUNTER_UNPAIRED_RETURNS, 1);
		return;
	}
	if (call->ignored)
		return;
	if (call->tracer->ops->ret(call->tracer, call->probe, hit, call))
		call_table_note_inner(s->calls, call_table_chain(s->calls, hit->key), hit->key,
				      hit->result);
	if (!is_last_hit(call, hit))
		await_next_hit(s, call, hit);
}

/* --- of simple probes ------------------------------------------------------------------------- */

static uint64_t key_of(const struct probe_record *record)
{
	return probe_record_word(record, FIELD_KEY) + RECORD_KEY_BIAS;
}

/* One that was entered when it was wanted is passed over. */
static inline bool is_off(const struct probe_ref *ref)
{
	return atomic_load_explicit(&ref->off, memory_order_relaxed);
}

static bool take_entry(void *arg, const struct probe_ref *ref, const struct probe_record *record)
{
	(void)arg;
	if (!is_off(ref))
		ref->tracer->ops->take_entry(ref->tracer, ref->probe, record);
	return true;
}

/* A task that has passed the gate before it changed would have a call that never returns. */
static inline bool is_of_wanted_task(const struct trace_session *s,
				     const struct probe_record *record)
{
	return !s->has_pid_gate || pids_want(s, (uint32_t)probe_record_word(record, FIELD_PID));
}

static bool take_call(void *arg, const struct probe_ref *ref, const struct probe_record *record)
{
	const struct trace_session *s = arg;
	struct open_call *call;

	if (is_off(ref) || !is_of_wanted_task(s, record))
		return true;
	call = open_call(arg, ref, key_of(record), probe_record_word(record, FIELD_CALL_SITE));
	if (call)
		ref->tracer->ops->take_call(ref->tracer, ref->probe, record, call);
	return true;
}

/* False: the call is none of a simple probe. */
static bool take_return(void *arg, const struct probe_ref *ref, const struct probe_record *record)
{
	struct trace_session *s = arg;
	const uint64_t key = key_of(record);
	struct call_chain *chain = call_table_chain(s->calls, key);
	struct call_node **link = call_table_seek(chain, key);
	const struct open_call *call;

	(void)ref;
	if (!link || !(*link)->entry.probe->simple)
		return false;
	call = call_table_unlink(s->calls, chain, link);
	if (!call->ignored &&
	    call->tracer->ops->take_return(call->tracer, call->probe, record, call))
		call_table_note_inner(s->calls, chain, key,
				      probe_record_word(record, FIELD_RESULT));
	return true;
}

probe_take_fn *session_taker(const struct probe_ref *ref)
{
	if (!ref)
		return take_return;
	if (!ref->probe->simple)
		return NULL;
	return ref->probe->wants_return ? take_call : take_entry;
}

/* The boot window looks at each call by itself. */
size_t session_take_run(void *arg, const struct probe_run *run)
{
	const struct trace_session *s = arg;
	struct tracer *tracer = run->writers[run->taken->id].ref->tracer;

	return s->boot.returns_out ? 0 : tracer->ops->take_run(tracer, run);
}

void session_emit(void *arg, const struct probe_ref *ref, enum probe_point point,
		  const struct probe_hit *hit)
{
	struct trace_session *s = arg;
	probe_take_fn *const take = session_taker(point == POINT_RETURN ? NULL : ref);
	struct probe_record record;
	struct probe_cpu cpu;

	if (take) {
		record = probe_record_of(hit, &cpu);
		if (take(s, ref, &record))
			return;
	}
	if (point == POINT_RETURN)
		on_return(s, hit);
	else if (is_off(ref) || !pids_want(s, hit->pid))
		return; /* its array stays: meanwhile the slot may be another call's with this key
			 */
	else if (ref->probe->wants_return)
		await_return(s, ref, hit);
	else
		ref->tracer->ops->entry(ref->tracer, ref->probe, hit, NULL);
}

void session_emitted(void *arg)
{
	struct trace_session *s = arg;

	for (size_t i = 0; i < s->tracers.n; i++)
		if (s->tracers.v[i]->ops->emitted)
			s->tracers.v[i]->ops->emitted(s->tracers.v[i]);
	s->stream_ops->output.end(&s->batch);
}

void session_forget_array(struct trace_session *s, const struct probe *probe, uint64_t key)
{
	if (probe->entry.items.from == ITEMS_SAVED)
		trap_reader_drop_array(&s->reader, s->engine, key);
}

void session_forget_open_calls(struct trace_session *s)
{
	count_event(&s->counters, COUNTER_IN_FLIGHT, call_table_clear(s->calls));
	trap_reader_forget(&s->reader);
}

/* --- on vCPUs' threads ------------------------------------------------------------------------ */

bool session_on_trap(void *arg, struct guest_trap *trap)
{
	struct trace_session *s = arg;
	struct engine *engine = s->engine;
	enum engine_trap taken;

	if (trap->gap_ns) {
		session_gap(s, trap->gap_ns);
		return true;
	}
	taken = engine->ops->on_trap(engine, trap);
	if (taken == ENGINE_TRAP_FOREIGN)
		return false;
	session_sample(s, taken == ENGINE_TRAP_CALL);
	session_poll(s);
	return true;
}

void session_boot_entry(void *arg, uint64_t site, const struct guest_trap *trap)
{
	struct trace_session *s = arg;

	trap_reader_entry(&s->reader, s->engine, site, trap);
}

void session_boot_return(void *arg, const struct guest_trap *trap)
{
	struct trace_session *s = arg;

	trap_reader_return(&s->reader, s->engine, trap);
}
