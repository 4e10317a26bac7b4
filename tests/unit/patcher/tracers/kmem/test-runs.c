/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that are taken in runs become the events that they become one by one: of calls that
 * return at once, nest, sleep, move to another vCPU, tail-call, fail, or are whole pages. */
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "guest-symbols/kmem/allocators.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/lib/fake-session.h"
#include "tests/lib/ring-writer.h"
#include "tests/lib/tap.h"

enum {
	VCPUS = 2,
	SCRIPTS = 24,
	STEPS = 60,
	STACKS = 8,
	NESTING = 3,
	DEPTH = 3,
	PATIENCE_MS = 20000
};
enum { TICKS = 10, SLACK_NS = 1000000, LARGE = 20000, SITES = 4 };

static struct fake_session fs;
static struct ring_engine *x;
static unsigned int seed, nr_taken;
static uint64_t now, nr_records;

static unsigned int below(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

/* --- the session ----------------------------------------------------------------------------- */

static size_t count_run(void *arg, const struct probe_run *run)
{
	size_t n = session_take_run(arg, run);

	nr_taken += (unsigned int)n;
	return n;
}

static void begin(bool in_runs, const char *spec)
{
	const char *const specs[] = {spec, NULL};

	const struct trace_options options = {.exitless = true, .ring_bytes = RING_MIN_LARGE};

	fake_session_create(&fs);
	/* a slot of 5 bytes in place of one: the jump to the return thunk */
	fake_branch(&fs.fg, FAKE_ALLOC_PAGES + 15, 0xe9, FAKE_RETURN_THUNK);
	fake_session_list_return_sites(&fs);
	fake_session_keep_text(&fs);
	fs.fg.regions[0].hva = fs.fg.base.ram;
	trace_session_set_options(fs.session, &options);
	if (trace_session_start(fs.session, specs, NULL))
		abort();
	x = ring_engine_of(fs.session->ring_engine);
	ring_engine_stop_thread(x);
	x->config.take_run = in_runs ? count_run : NULL;
	now = fs.fg.guest.clock->tsc(&fs.fg.guest);
	nr_taken = 0;
	nr_records = 0;
}

static uint64_t records_taken(void)
{
	struct trace_counters sum = {0};

	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->engine.ops->counts(&x->engine, i, &sum);
	return sum.v[COUNTER_RING_RECORDS];
}

static void drain(void)
{
	atomic_store(&fs.fg.last_tsc, now + SLACK_NS);
	if (ring_engine_start_thread(x, NULL))
		abort();
	for (int i = 0; i < PATIENCE_MS && records_taken() < nr_records; i++)
		clock_wait_ms(1);
}

/* --- what vCPUs write ------------------------------------------------------------------------- */

struct call {
	uint64_t function, key, size, object, cache, site;
};

static uint32_t place_of(const struct patch_set *set, uint32_t first, uint64_t function)
{
	for (uint32_t i = 0; i < set->n; i++)
		if (set->v[i].gva - fake_gva(function) < 0x100 && x->set.places[first + i].made)
			return first + i;
	abort();
}

static void set_field(struct ring_record *record, const struct trampoline_place *place,
		      enum record_field field, uint64_t value)
{
	if (place->layout.offset[field])
		memcpy((uint8_t *)record + place->layout.offset[field], &value, sizeof(value));
}

static uint64_t value_of(const struct call *call, enum alloc_role role)
{
	switch (role) {
	case ALLOC_ROLE_CACHE:
		return call->cache;
	case ALLOC_ROLE_SIZE:
		return call->size;
	case ALLOC_ROLE_GFP:
		return 0xcc0;
	case ALLOC_ROLE_OBJECT:
	case ALLOC_ROLE_PAGE:
		return call->object;
	default:
		return 0;
	}
}

static void write_record(unsigned int vcpu, uint32_t id, const struct call *call)
{
	/* the last one passes the gate, as it shares a bucket with the first */
	static const uint64_t pids[] = {100, 101, 100 + PID_GATE_BUCKETS};
	const struct trampoline_place *place = &x->set.places[id];
	struct ring_writer writer =
		ring_writer(x->rings[vcpu].header, x->rings[vcpu].config.data_bytes);
	/* the thread that was stopped may have armed the doorbell */
	struct ring_record *record = ring_writer_reserve_unchecked(&writer, place->layout.size);

	record->tsc = now += TICKS;
	set_field(record, place, FIELD_KEY, call->key);
	set_field(record, place, FIELD_CALL_SITE, call->site);
	set_field(record, place, FIELD_RESULT, call->object);
	set_field(record, place, FIELD_PID, pids[call->key % 3]);
	set_field(record, place, FIELD_TGID, 100);
	set_field(record, place, FIELD_COMM, 0x6d616e);
	set_field(record, place, FIELD_SLAB_CACHE, call->size > LARGE / 2 ? 0 : call->cache);
	for (unsigned int i = 0; place->ref && i < ALLOC_MAX_ARGS; i++) {
		const struct alloc_entry *entry = place->ref->probe->data;

		set_field(record, place, FIELD_ARG0 + i, value_of(call, entry->args[i]));
	}
	ring_writer_commit(record, (struct ring_sample){.id = id, .size = place->layout.size});
	nr_records++;
}

static void enter(unsigned int vcpu, const struct call *call)
{
	write_record(vcpu, place_of(&fs.session->plan.entries, 0, call->function), call);
}

static void leave(unsigned int vcpu, const struct call *call)
{
	const uint32_t first = (uint32_t)fs.session->plan.entries.n;

	write_record(vcpu, place_of(&fs.session->plan.returns, first, call->function), call);
}

/* --- scripts ---------------------------------------------------------------------------------- */

struct stack {
	uint64_t top;
	struct call calls[DEPTH]; /* that are open */
	unsigned int n, vcpu;
	bool nests; /* calls may stay open */
};

static struct call draw_call(const struct stack *stack)
{
	static const uint64_t functions[] = {FAKE_KMALLOC, FAKE_CACHE_ALLOC, FAKE_ALLOC_PAGES};
	struct call call = {.function = functions[below(3)],
			    .key = stack->top - stack->n * 0x100 - 8 * below(8),
			    .size = below(8) ? 64 : LARGE,
			    .site = fake_gva(FAKE_CALLER + 16 * below(SITES)),
			    .cache = fake_cache()};

	call.object = call.function == FAKE_ALLOC_PAGES ? fake_page(1000 + below(32))
							: fake_object() + 64 * below(32);
	if (!below(10))
		call.object = 0;
	return call;
}

static void free_one(struct stack *stack)
{
	static const uint64_t functions[] = {FAKE_KFREE, FAKE_CACHE_FREE, FAKE_FREE_PAGE};
	struct call call = draw_call(stack);
	unsigned int i = below(3);

	call.function = functions[i];
	if (call.object)
		call.object = i == 2 ? fake_page(1000 + below(32)) : fake_object() + 64 * below(32);
	enter(stack->vcpu, &call);
}

/* Calls one, which often returns at once; by a tail call now and then. */
static void call_one(struct stack *stack)
{
	struct call call = draw_call(stack);

	enter(stack->vcpu, &call);
	if (!below(8)) {
		call.function = FAKE_CACHE_ALLOC;
		call.object = fake_object();
		enter(stack->vcpu, &call);
	}
	if (below(4) || !stack->nests)
		leave(stack->vcpu, &call);
	else
		stack->calls[stack->n++] = call;
}

/* kmalloc() of whole pages goes through two of its functions. */
static void call_large(struct stack *stack)
{
	struct call outer = draw_call(stack), inner;

	outer.function = FAKE_KMALLOC;
	outer.size = LARGE;
	inner = outer;
	inner.key -= 0x40;
	inner.site = fake_gva(FAKE_KMALLOC + 32);
	enter(stack->vcpu, &outer);
	enter(stack->vcpu, &inner);
	leave(stack->vcpu, &inner);
	leave(stack->vcpu, &outer);
}

static void step(struct stack *stack)
{
	if (!below(6))
		stack->vcpu = below(VCPUS);
	if (stack->n && (stack->n == DEPTH || !below(3)))
		leave(stack->vcpu, &stack->calls[--stack->n]);
	else if (stack->nests && !below(10))
		call_large(stack);
	else if (below(3))
		call_one(stack);
	else
		free_one(stack);
}

static void play(unsigned int script)
{
	struct stack stacks[STACKS] = {0};

	seed = script;
	for (unsigned int i = 0; i < STACKS; i++) {
		stacks[i].top = 0xffffc90000003f00 + i * 0x8000;
		stacks[i].nests = i < NESTING;
	}
	for (unsigned int i = 0; i < STEPS; i++)
		step(&stacks[below(STACKS)]);
	drain();
}

/* --- comparing -------------------------------------------------------------------------------- */

static const enum counter_id counters[] = {
	COUNTER_NESTED,     COUNTER_LOST,       COUNTER_UNPAIRED_RETURNS, COUNTER_NULL_ALLOCS,
	COUNTER_NULL_FREES, COUNTER_UNREADABLE, COUNTER_VMALLOC_ALLOCS};
enum { NR_COUNTERS = sizeof(counters) / sizeof(counters[0]) };

struct outcome {
	struct record_event events[FAKE_MAX_EVENTS];
	size_t n;
	uint64_t counts[NR_COUNTERS];
	unsigned int taken;
};

static void run(unsigned int script, bool in_runs, struct outcome *out)
{
	begin(in_runs, script % 2 ? "kmem" : "kmem:pid,tgid,comm,pid=100+101");
	play(script);
	out->n = fake_session_recorded(&fs);
	memcpy(out->events, fs.events, sizeof(out->events));
	for (unsigned int i = 0; i < NR_COUNTERS; i++)
		out->counts[i] = fake_session_count(&fs, counters[i]);
	out->taken = nr_taken;
	trace_session_stop(fs.session, NULL);
	fake_session_destroy(&fs);
}

/* Each session's clock begins at its own time, and addresses are another kernel's. */
static bool is_same(const struct outcome *a, const struct outcome *b)
{
	bool same = a->n == b->n && !memcmp(a->counts, b->counts, sizeof(a->counts));

	for (size_t i = 0; same && i < a->n; i++) {
		struct kmem_record p = a->events[i].record, q = b->events[i].record;

		same = p.timestamp - a->events[0].record.timestamp ==
		       q.timestamp - b->events[0].record.timestamp;
		p.timestamp = q.timestamp = 0;
		same &= a->events[i].vcpu == b->events[i].vcpu && !memcmp(&p, &q, sizeof(q));
	}
	return same;
}

int main(void)
{
	static struct outcome runs, singles;
	unsigned int taken = 0, events = 0;
	bool nested = false, nulls = false;

	for (unsigned int script = 1; script <= SCRIPTS; script++) {
		run(script, true, &runs);
		run(script, false, &singles);
		ok(is_same(&runs, &singles) && !singles.taken,
		   "script %u: the same %zu events in runs", script, singles.n);
		taken += runs.taken;
		events += (unsigned int)runs.n;
		nested |= runs.counts[0];
		nulls |= runs.counts[3] && runs.counts[4];
	}
	ok(taken > events / 4 && taken < events,
	   "some are taken in runs, and some are not (%u of %u)", taken, events);
	ok(nested && nulls, "some calls are nested, and some get nothing");
	return tap_done();
}
