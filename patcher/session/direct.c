/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the direct lane records: planned while the guest runs, changed in one stop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "guest-symbols/functions/function-exits.h"
#include "introspect/guest/memory.h"
#include "patcher/session/internal.h"

enum {
	CHANGE_TRIES = 5, /* while the guest changes its own sites in between */
	OUT_TRIES = 3000, /* of a millisecond, while they are the guest's */
};

/* What the guest had been given when a plan was begun. */
struct handoffs {
	uint64_t ftrace, kprobes;
};

/* A change, from the plan on. */
struct change {
	struct trace_session *session;
	struct instance_list *list;
	const bool *off; /* struct direct_change */
	struct site_table table;
	struct kernel_names *names;
	struct shared_sites sites;
	struct shared_slots slots;
	bool *wanted; /* by site: of the instance that is looked at */
	struct direct_want wants[DIRECT_MAX];
	size_t nr_wants;
	struct session_instance *instances[TRACE_MAX_INSTANCES];
	size_t n;
	/* by instance: the results */
	size_t nr_sites[TRACE_MAX_INSTANCES], nr_refused[TRACE_MAX_INSTANCES];
	struct site_refusal *refused[TRACE_MAX_INSTANCES];
	bool *chosen[TRACE_MAX_INSTANCES]; /* by site */
};

static void deinit_change(struct change *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->refused[i]);
		free(c->chosen[i]);
	}
	free(c->wanted);
	kernel_names_destroy(c->names);
	shared_slots_deinit(&c->slots);
	shared_sites_deinit(&c->sites);
	site_table_deinit(&c->table);
}

static bool is_at_returns(const struct session_instance *instance)
{
	return instance->ops->at_returns && instance->ops->at_returns(instance->tracer);
}

/* Before there are tracers. */
static bool may_want_returns(const struct instance_list *list)
{
	bool may = false;

	for (size_t i = 0; i < list->n; i++)
		may |= list->v[i]->ops->return_fields || list->v[i]->ops->at_returns;
	return may;
}

static bool wants_returns(const struct instance_list *list)
{
	bool wanted = false;

	for (size_t i = 0; i < list->n; i++)
		wanted |= list->v[i]->ops->return_fields || is_at_returns(list->v[i]);
	return wanted;
}

static int read_sites(struct change *c, struct error *err)
{
	struct trace_session *s = c->session;
	int ret = guest_hold_to_read(s->guest, err);

	if (ret)
		return ret;
	ret = kernel_names_create(&s->kernel, &c->names, err);
	if (!ret)
		ret = site_table_read(&c->table, &s->kernel, c->names, err);
	if (!ret)
		ret = shared_sites_make(&c->sites, &c->table, &s->plan,
					session_is_asked(s, ASK_FTRACE), err);
	if (!ret && (wants_returns(c->list) || s->plan.slots.n))
		ret = shared_slots_make(&c->slots, &s->kernel, &s->plan, err);
	ret = guest_release(s->guest, ret, err);
	if (ret)
		return ret;
	c->wanted = calloc(c->table.n + 1, sizeof(*c->wanted));
	return c->wanted ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int refuse(struct change *c, size_t k, const struct shared_site *site, struct error *err)
{
	size_t n = c->nr_refused[k];
	struct site_refusal *refused = c->refused[k];

	if (!(n & (n - 1))) {
		refused = realloc(refused, (n ? 2 * n : 1) * sizeof(*refused));
		if (!refused)
			return error_set(err, ENOMEM, "out of memory");
		c->refused[k] = refused;
	}
	refused[n] = site_refuse(site->patch.function, site->patch.gva, "%s", site->refusal);
	c->nr_refused[k]++;
	return 0;
}

static int keep_choice(struct change *c, size_t k, struct error *err)
{
	const size_t bytes = (c->table.n + 1) * sizeof(bool);

	c->chosen[k] = malloc(bytes);
	if (!c->chosen[k])
		return error_set(err, ENOMEM, "out of memory");
	memcpy(c->chosen[k], c->wanted, bytes);
	return 0;
}

/* --- what an instance wants ------------------------------------------------------------------ */

/* The bits of an instance's wants, as of enum tracer_class. */
struct want_bits {
	uint32_t entry, exit, call, tail;
	bool tails;
	bool own; /* a return that is seen is the function's own */
};

/* What is counted at the places of a class. */
static enum count_action action_of(unsigned int class)
{
	if (class == TRACER_EXIT)
		return COUNT_STOP;
	return class == TRACER_CALL ? COUNT_HIT : COUNT_START;
}

/* *bit is that of the want; unchanged on error. */
static int add_want(struct change *c, const struct session_instance *instance,
		    enum probe_point point, unsigned int class, uint32_t *bit, struct error *err)
{
	const struct tracer_ops *ops = instance->ops;
	struct instance_stream *stream = instance->stream;
	struct direct_want *want = &c->wants[c->nr_wants];

	if (c->nr_wants == DIRECT_MAX)
		return error_set(err, ENOSPC,
				 "too many traced instances: one with returns takes "
				 "the place of three");
	*want = (struct direct_want){.point = point, .class = class};
	want->fields =
		(point == POINT_RETURN && ops->return_fields ? ops->return_fields
							     : ops->fields)(instance->tracer);
	if (ops->gate)
		want->gate = ops->gate(instance->tracer);
	if (ops->filter)
		want->filter = ops->filter(instance->tracer);
	if (ops->profile) {
		want->owner = instance;
		want->profile = ops->profile(instance->tracer);
		want->action = action_of(class);
	}
	if (ops->fetch)
		want->fetch = ops->fetch(instance->tracer);
	if (stream) {
		want->owner = instance;
		want->output = &c->session->stream_ops->output;
		want->sinks = stream->sinks;
		want->records = &stream->records;
		want->lost = &stream->lost;
	}
	*bit = UINT32_C(1) << c->nr_wants++;
	return 0;
}

static int add_wants(struct change *c, const struct session_instance *instance,
		     struct want_bits *bits, struct error *err)
{
	int ret;

	if (is_at_returns(instance))
		return add_want(c, instance, POINT_RETURN, TRACER_ENTRY, &bits->exit, err);
	ret = add_want(c, instance, POINT_ENTRY, TRACER_ENTRY, &bits->entry, err);
	if (ret || !instance->ops->return_fields)
		return ret;
	bits->tails = instance->ops->tails(instance->tracer);
	ret = add_want(c, instance, POINT_RETURN, TRACER_EXIT, &bits->exit, err);
	if (!ret)
		ret = add_want(c, instance, POINT_ENTRY, TRACER_CALL, &bits->call, err);
	bits->own = instance->ops->profile;
	bits->tail = bits->entry;
	if (ret || instance->ops->profile || instance->ops->no_tail_calls)
		return ret;
	return add_want(c, instance, POINT_ENTRY, TRACER_TAIL, &bits->tail, err);
}

/* The function of the image that has this site; 0: none has. */
static uint64_t function_at(const struct kernel *kernel, uint64_t site)
{
	const struct symbol *function = NULL;

	if (kernel_in_image(kernel, site))
		function = symbols_covering(kernel->image->symbols, kernel_link(kernel, site));
	return function ? function->address : 0;
}

/* Want the slots of a function. Returns whether its return may be seen, if only as that of one that
 * it tail-calls. */
static bool want_slots(struct change *c, const struct function_exits *exits, uint64_t function,
		       const struct want_bits *bits)
{
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	size_t n = function_exits_find(exits, function, bits->tails, ranges);
	bool any = false;

	for (size_t r = 0; r < n; r++)
		for (size_t i = ranges[r].begin; i < ranges[r].end; i++) {
			if (!c->slots.v[i].usable)
				continue;
			c->slots.v[i].mask |= bits->exit;
			any = true;
		}
	return any || (!bits->own && function_exits_find(exits, function, true, ranges) > n);
}

/* How the functions of an instance with returns are left, and entered from each other. */
struct ways {
	const struct function_exits *exits;
	struct function_tails *tails;
};

/* A function that only others jump to is none that a tail call may enter: its entry shows that the
 * call which had its frame has ended, whether or not that one's return was seen. */
static int find_ways(const struct change *c, struct ways *ways, struct error *err)
{
	int ret = function_exits_of(c->session->image, &ways->exits, err);

	if (!ret)
		ret = function_tails_create(ways->exits, &ways->tails, err);
	for (size_t i = 0; !ret && i < c->sites.n; i++)
		if (c->wanted[i])
			function_tails_add(ways->tails, function_at(&c->session->kernel,
								    c->sites.v[i].patch.gva));
	return ret;
}

/* What an instance with returns wants of this site: nothing, if it wants returns only. */
static uint32_t choose_entry(struct change *c, const struct ways *ways, uint64_t site,
			     const struct want_bits *bits)
{
	const uint64_t function = function_at(&c->session->kernel, site);

	if (!function || !want_slots(c, ways->exits, function, bits))
		return bits->call;
	return function_tails_has(ways->tails, function) ? bits->tail : bits->entry;
}

static int want_sites(struct change *c, size_t k, const struct want_bits *bits, struct error *err)
{
	struct ways ways = {0};
	int ret = bits->exit ? find_ways(c, &ways, err) : 0;

	for (size_t i = 0; !ret && i < c->sites.n; i++) {
		struct shared_site *site = &c->sites.v[i];

		if (!c->wanted[i])
			continue;
		if (site->refusal) {
			ret = refuse(c, k, site, err);
			continue;
		}
		site->mask |=
			bits->exit ? choose_entry(c, &ways, site->patch.gva, bits) : bits->entry;
		c->nr_sites[k]++;
	}
	function_tails_destroy(ways.tails);
	return ret;
}

static int add_instance(struct change *c, struct session_instance *instance, struct error *err)
{
	const size_t k = c->n++;
	struct want_bits bits = {0};
	int ret = add_wants(c, instance, &bits, err);

	c->instances[k] = instance;
	if (!ret)
		ret = instance->ops->select(instance->tracer, &c->table, instance->active,
					    c->wanted, err);
	if (!ret)
		ret = want_sites(c, k, &bits, err);
	return ret ? ret : keep_choice(c, k, err);
}

static int plan(struct change *c, struct error *err)
{
	int ret = read_sites(c, err);

	for (size_t i = 0; !ret && i < c->list->n; i++)
		if (c->list->v[i]->ops->lane == LANE_DIRECT)
			ret = add_instance(c, c->list->v[i], err);
	return ret;
}

/* The plan's shared sites and the instances' refusals have names of the table. */
static void keep_results(struct change *c, bool active)
{
	struct trace_session *s = c->session;

	for (size_t i = 0; i < c->n; i++) {
		struct session_instance *instance = c->instances[i];

		free(instance->refused);
		free(instance->wanted);
		instance->refused = c->refused[i];
		instance->planned_refused = c->nr_refused[i];
		instance->planned = c->nr_sites[i];
		instance->wanted = c->chosen[i];
		instance->active = active;
		instance->begun |= active;
		c->refused[i] = NULL;
		c->chosen[i] = NULL;
	}
	site_table_deinit(&s->sites);
	s->sites = c->table;
	c->table = (struct site_table){0};
	session_keep_names(s, c->names);
	c->names = NULL;
}

void direct_note_switch(struct trace_session *s, size_t sites, uint64_t since_ns)
{
	if (!sites)
		return;
	s->switched = (struct trace_switch){s->switched.times + 1, sites,
					    clock_monotonic_ns() - since_ns};
	count_event(&s->counters, COUNTER_SWITCHES, 1);
	count_event(&s->counters, COUNTER_SWITCHED_SITES, sites);
	count_event(&s->counters, COUNTER_SWITCH_NS, s->switched.ns);
}

struct trace_switch trace_session_switch(const struct trace_session *s)
{
	return s->switched;
}

/* With the guest stopped: what the plan was made from is as it was. Else -ESTALE: plan again. */
static int check_plan(struct trace_session *s, const struct site_table *table,
		      const struct handoffs *handoffs, struct error *err)
{
	bool current = true;
	int ret = 0;

	if (atomic_load(&s->ftrace.times) != handoffs->ftrace || s->ftrace.out)
		return error_set(err, ESTALE, "the guest's own ftrace has changed its sites");
	if (atomic_load(&s->kprobes.yields) != handoffs->kprobes)
		return error_set(err, ESTALE, "the guest has put a kprobe at a patch");
	if (table)
		ret = site_table_is_current(table, &s->kernel, &current, err);
	if (!ret && !current)
		ret = error_set(err, ESTALE, "the guest is loading or unloading modules");
	return ret;
}

/* `table`: what was planned from; NULL: no sites were looked at. `held_ns`: since when the guest
 * has been stopped; 0: it runs. It is resumed in any case. */
static int commit(struct trace_session *s, const struct site_table *table,
		  const struct handoffs *handoffs, uint64_t held_ns, struct error *err)
{
	struct engine *engine = s->ring_engine;
	int ret = held_ns ? 0 : text_locks_stop(&s->kernel, err);
	uint64_t since = held_ns ? held_ns : clock_monotonic_ns();
	size_t switched = 0;

	if (ret) {
		engine->ops->direct_discard(engine);
		return ret;
	}
	ret = check_plan(s, table, handoffs, err);
	if (ret)
		engine->ops->direct_discard(engine);
	else
		ret = engine->ops->direct_commit(engine, &switched, err);
	s->guest->control->resume(s->guest, NULL);
	direct_note_switch(s, switched, since);
	return ret;
}

/*
 * What check_plan() compares with, before a plan is made. A plan that is made while the sites are
 * the guest's is stale: they are patched again without another handoff. -ESTALE.
 */
static int note_handoffs(const struct trace_session *s, struct handoffs *handoffs,
			 struct error *err)
{
	handoffs->ftrace = atomic_load(&s->ftrace.times);
	handoffs->kprobes = atomic_load(&s->kprobes.yields);
	if (s->ftrace.out)
		return error_set(err, ESTALE, "the guest's own ftrace is changing its sites");
	return 0;
}

/* -EAGAIN: for too long. */
static int await_sites(const struct trace_session *s, struct error *err)
{
	for (int i = 0; s->ftrace.out && i < OUT_TRIES; i++)
		clock_wait_ms(1);
	if (s->ftrace.out)
		return error_set(err, EAGAIN, "the guest's own ftrace is changing its sites");
	return 0;
}

/* Before a commit, in a guest that runs, or is stopped. */
static int prepare(struct change *c, struct direct_change *change, struct handoffs *handoffs,
		   struct error *err)
{
	struct trace_session *s = c->session;
	int ret = note_handoffs(s, handoffs, err);

	if (!ret)
		ret = plan(c, err);
	*change = (struct direct_change){
		.wants = c->wants, .nr_wants = c->nr_wants, .sites = &c->sites, .off = c->off};
	if (c->slots.v)
		change->slots = &c->slots;
	if (!ret && c->n)
		change->bell = modules_bell_site(s, &c->table, &c->sites);
	return ret ? ret : s->ring_engine->ops->direct_prepare(s->ring_engine, change, err);
}

/* `hold`: plan, too, with the guest stopped, so that nothing of the plan is stale. */
static int try_change(struct trace_session *s, struct instance_list *list, const bool *off,
		      bool hold, struct error *err)
{
	struct change c = {.session = s, .list = list, .off = off};
	struct direct_change change;
	struct handoffs handoffs;
	int ret = hold ? text_locks_stop(&s->kernel, err) : 0;
	const uint64_t held_ns = hold ? clock_monotonic_ns() : 0;

	if (ret)
		return ret;
	ret = prepare(&c, &change, &handoffs, err);
	if (!ret)
		ret = commit(s, &c.table, &handoffs, held_ns, err);
	else if (hold)
		s->guest->control->resume(s->guest, NULL);
	if (!ret)
		keep_results(&c, true);
	if (!ret)
		modules_open_bell(s, change.bell);
	deinit_change(&c);
	return ret;
}

/*
 * A guest that loads modules one after the other makes each plan stale, so it is held while the
 * second one is made; `hold`: the first one, too. A guest that is stopped to be read gets a plan
 * for each change in turn: its stops do not nest.
 */
static int apply(struct trace_session *s, struct instance_list *list, const bool *off, bool hold,
		 struct error *err)
{
	const bool nests = !(s->guest->caps & GUEST_STOPS_TO_READ);
	int ret = -ESTALE;

	for (int i = 0; ret == -ESTALE && i < CHANGE_TRIES; i++) {
		ret = await_sites(s, err);
		if (!ret)
			ret = try_change(s, list, off, nests && (hold || i), err);
	}
	return ret;
}

int direct_apply(struct trace_session *s, struct instance_list *list, const bool *off,
		 struct error *err)
{
	return apply(s, list, off, false, err);
}

static int try_keep(struct trace_session *s, const bool *off, struct error *err)
{
	const struct direct_change change = {.off = off};
	struct handoffs handoffs;
	int ret = note_handoffs(s, &handoffs, err);

	if (!ret)
		ret = s->ring_engine->ops->direct_prepare(s->ring_engine, &change, err);
	return ret ? ret : commit(s, NULL, &handoffs, 0, err);
}

int direct_keep_wants(struct trace_session *s, const bool *off, struct error *err)
{
	int ret = -ESTALE;

	for (int i = 0; ret == -ESTALE && i < CHANGE_TRIES; i++) {
		ret = await_sites(s, err);
		if (!ret)
			ret = try_keep(s, off, err);
	}
	return ret;
}

int direct_plan(struct trace_session *s, struct instance_list *list, struct error *err)
{
	struct change c = {.session = s, .list = list};
	int ret = plan(&c, err);

	if (!ret)
		keep_results(&c, false);
	deinit_change(&c);
	return ret;
}

static bool is_wanted(const struct trace_session *s, const struct session_instance *instance,
		      uint64_t gva)
{
	size_t low = 0, high = s->sites.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->sites.v[mid].gva < gva)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->sites.n && s->sites.v[low].gva == gva && instance->wanted[low];
}

static void add_held(struct session_instance *instance, const struct patch *patch)
{
	struct site_refusal *refused = instance->refused;

	refused = reallocarray(refused, instance->nr_refused + 1, sizeof(*refused));
	if (!refused)
		return;
	instance->refused = refused;
	refused[instance->nr_refused++] = ftrace_site_refusal(patch);
	instance->sites--;
}

void direct_count_sites(const struct trace_session *s, struct session_instance *instance)
{
	const struct patch_set *const sets[] = {&s->plan.shared, &s->plan.entries};

	instance->sites = instance->planned;
	instance->nr_refused = instance->planned_refused;
	for (size_t k = 0; instance->active && k < sizeof(sets) / sizeof(sets[0]); k++)
		for (size_t i = 0; i < sets[k]->n; i++) {
			const struct patch *patch = &sets[k]->v[i];

			if (!patch->off && ftrace_site_is_held(patch) &&
			    is_wanted(s, instance, patch->gva))
				add_held(instance, patch);
		}
}

bool direct_is_active(const struct trace_session *s)
{
	return s->enabled && !s->direct_pending && instances_have_direct(&s->instances);
}

/* What is known of the image need not wait for the guest to be ready. */
int direct_check_image(const struct trace_session *s, struct error *err)
{
	const struct function_exits *exits;
	struct error why;

	if (!instances_have_direct(&s->instances))
		return 0;
	if (kernel_image_check_sites(s->image, &why))
		return error_set(err, why.code, "functions cannot be recorded: %s", why.text);
	if (kernel_image_check_btf(s->image, &why))
		return error_set(err, why.code, "functions are recorded in exitless mode only: %s",
				 why.text);
	/* found once, and not while the guest waits */
	return may_want_returns(&s->instances) ? function_exits_of(s->image, &exits, err) : 0;
}

int direct_no_rings(const struct trace_session *s, struct error *err)
{
	return error_set(err, ENOTSUP, "functions are recorded in exitless mode only%s%s",
			 s->no_rings.code ? ": " : "", s->no_rings.text);
}

int direct_start(struct trace_session *s, struct error *err)
{
	if (!s->direct_pending || s->switch_pending || !instances_have_direct(&s->instances))
		return 0;
	s->direct_pending = false;
	/* rings will not come: this is told once */
	if (s->engine != s->ring_engine)
		return direct_no_rings(s, err);
	/* else a guest that boots has done so, or powered off, when what it was started with is
	 * traced */
	return apply(s, &s->instances, NULL, s->from_first_allocation && s->starts == 1, err);
}

void direct_forget(struct trace_session *s)
{
	for (size_t i = 0; i < s->instances.n; i++)
		s->instances.v[i]->active = false;
	s->direct_pending = true;
	modules_open_bell(s, false);
}
