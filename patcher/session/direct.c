/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the direct lane records is changed: planned while the guest runs, done in one stop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "guest-symbols/functions/function-exits.h"
#include "introspect/guest/memory.h"
#include "patcher/session/lane-plan.h"

enum {
	CHANGE_TRIES = 5, /* while the guest changes its own sites in between */
	OUT_TRIES = 3000, /* of a millisecond, while they are the guest's */
};

/* What the guest had been given when a plan was begun. */
struct handoffs {
	uint64_t ftrace, kprobes;
	const struct kprobe_table *registered; /* NULL: nothing is planned */
};

void direct_note_switch(struct trace_session *s, size_t sites, uint64_t since_ns)
{
	if (!sites)
		return;
	count_event(&s->counters, COUNTER_SWITCHES, 1);
	count_event(&s->counters, COUNTER_SWITCHED_SITES, sites);
	count_event(&s->counters, COUNTER_SWITCH_NS, clock_monotonic_ns() - since_ns);
}

struct trace_switches trace_session_switches(const struct trace_session *s)
{
	return (struct trace_switches){atomic_load(&s->counters.v[COUNTER_SWITCHES]),
				       atomic_load(&s->counters.v[COUNTER_SWITCHED_SITES]),
				       atomic_load(&s->counters.v[COUNTER_SWITCH_NS])};
}

struct trace_switches trace_switches_since(const struct trace_switches *now,
					   const struct trace_switches *before)
{
	return (struct trace_switches){now->times - before->times, now->sites - before->sites,
				       now->ns - before->ns};
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
	if (!ret && handoffs->registered)
		ret = kprobe_table_is_current(handoffs->registered, &s->kernel, &current, err);
	if (!ret && !current)
		ret = error_set(err, ESTALE, "the guest has registered or removed kprobes");
	return ret;
}

/* `table`: what was planned from; NULL: no sites were looked at. `held_ns`: since when the guest
 * has been stopped; 0: it runs. It is resumed in any case. */
static int commit(struct trace_session *s, const struct site_table *table,
		  const struct handoffs *handoffs, struct ordered_change *ordered, uint64_t held_ns,
		  struct error *err)
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
	if (!ret)
		ordered_adopt(ordered);
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
	handoffs->registered = NULL;
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

static struct direct_kept image_of(const struct kernel *kernel)
{
	return (struct direct_kept){kernel_gva(kernel, kernel->image->text),
				    kernel_gva(kernel, kernel->image->end)};
}

/* The bell's site is in the image. */
static void fill_change(const struct lane_plan *p, struct direct_change *change)
{
	const struct trace_session *s = p->session;

	*change = (struct direct_change){.wants = p->wants,
					 .nr_wants = p->nr_wants,
					 .sites = &p->sites,
					 .off = ordered_off(p->ordered),
					 .view = ordered_view(p->ordered)};
	if (p->slots.v)
		change->slots = &p->slots;
	if (p->part) {
		change->kept = image_of(&s->kernel);
		change->bell = s->bell.site;
		return;
	}
	if (p->inside.n || s->plan.inside.n)
		change->inside = &p->inside;
	if (p->n)
		change->bell = modules_bell_site(s, &p->table, &p->sites);
}

/* Before a commit, in a guest that runs, or is stopped. */
static int prepare(struct lane_plan *p, bool held, struct direct_change *change,
		   struct handoffs *handoffs, struct error *err)
{
	struct engine *engine = p->session->ring_engine;
	int ret = note_handoffs(p->session, handoffs, err);

	if (!ret)
		ret = lane_plan_make(p, err);
	if (ret)
		return ret;
	handoffs->registered = &p->kprobes;
	fill_change(p, change);
	change->held = held;
	ret = p->part ? lane_plan_join(p, err) : 0;
	return ret ? ret : engine->ops->direct_prepare(engine, change, err);
}

/* `hold`: plan, too, with the guest stopped, so that nothing of the plan is stale. `p` is not made
 * yet. */
static int try_change(struct lane_plan *p, bool hold, struct error *err)
{
	struct trace_session *s = p->session;
	struct direct_change change;
	struct handoffs handoffs;
	int ret = hold ? text_locks_stop(&s->kernel, err) : 0;
	const uint64_t held_ns = hold ? clock_monotonic_ns() : 0;

	if (ret)
		return ret;
	ret = prepare(p, hold, &change, &handoffs, err);
	if (!ret)
		ret = commit(s, &p->table, &handoffs, p->ordered, held_ns, err);
	else if (hold)
		s->guest->control->resume(s->guest, NULL);
	if (ret)
		return ret;
	lane_plan_keep(p, true);
	modules_open_bell(s, change.bell, p->part ? s->bell.open : p->n > 0);
	modules_begin_asking(s);
	return 0;
}

/*
 * A guest that loads modules one after the other makes each plan stale, so it is held while the
 * second one is made; `hold`: the first one, too. A guest that is stopped to be read gets a plan
 * for each change in turn: its stops do not nest.
 */
static int apply(const struct lane_plan *wanted, bool hold, struct error *err)
{
	struct trace_session *s = wanted->session;
	const bool nests = !(s->guest->caps & GUEST_STOPS_TO_READ);
	int ret = -ESTALE;

	for (int i = 0; ret == -ESTALE && i < CHANGE_TRIES; i++) {
		struct lane_plan p = *wanted;

		ret = await_sites(s, err);
		if (!ret)
			ret = try_change(&p, nests && (hold || i), err);
		lane_plan_deinit(&p);
	}
	return ret;
}

int direct_apply(struct trace_session *s, struct instance_list *list,
		 struct ordered_change *ordered, struct error *err)
{
	const struct lane_plan all = {.session = s, .list = list, .ordered = ordered};

	return apply(&all, false, err);
}

/* Where a part does not do, or has no room for its code, what is no longer used goes with a plan of
 * all. */
int direct_follow(struct trace_session *s, struct error *err)
{
	const struct lane_plan modules = {.session = s, .list = &s->instances, .part = true};
	int ret = lane_plan_may_be_part(s) ? apply(&modules, false, err) : -EXDEV;

	if (ret != -EXDEV && ret != -ENOSPC)
		return ret;
	return direct_apply(s, &s->instances, NULL, err);
}

static int try_keep(struct trace_session *s, struct ordered_change *ordered, struct error *err)
{
	const struct direct_change change = {.off = ordered_off(ordered),
					     .view = ordered_view(ordered)};
	struct handoffs handoffs;
	int ret = note_handoffs(s, &handoffs, err);

	if (!ret)
		ret = s->ring_engine->ops->direct_prepare(s->ring_engine, &change, err);
	return ret ? ret : commit(s, NULL, &handoffs, ordered, 0, err);
}

int direct_keep_wants(struct trace_session *s, struct ordered_change *ordered, struct error *err)
{
	int ret = -ESTALE;

	for (int i = 0; ret == -ESTALE && i < CHANGE_TRIES; i++) {
		ret = await_sites(s, err);
		if (!ret)
			ret = try_keep(s, ordered, err);
	}
	return ret;
}

int direct_plan(struct trace_session *s, struct instance_list *list, struct error *err)
{
	struct lane_plan p = {.session = s, .list = list};
	int ret = lane_plan_make(&p, err);

	if (!ret)
		lane_plan_keep(&p, false);
	lane_plan_deinit(&p);
	return ret;
}

bool direct_is_active(const struct trace_session *s)
{
	return s->enabled && !s->direct_pending && !s->direct_failure.code &&
	       instances_have_direct(&s->instances);
}

/* Before there are tracers. */
static bool may_want_returns(const struct instance_list *list)
{
	bool may = false;

	for (size_t i = 0; i < list->n; i++)
		may |= list->v[i]->ops->return_fields || list->v[i]->ops->at_returns;
	return may;
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

int direct_check_functions(const struct trace_session *s, const struct instance_list *list,
			   struct error *err)
{
	int ret = 0;

	/* without traps it is not traced before it has booted */
	if (!guest_has_traps(s->guest) || !kernel_is_booting(&s->kernel))
		return 0;
	for (size_t i = 0; !ret && i < list->n; i++) {
		const struct session_instance *instance = list->v[i];

		if (!instance->asked && instance->ops->check_image)
			ret = instance->ops->check_image(&instance->spec, s->image, err);
		if (ret)
			error_prefix(err, "instance '%s': ", instance->spec.name);
	}
	return ret;
}

int direct_no_rings(const struct trace_session *s, struct error *err)
{
	return error_set(err, ENOTSUP, "functions are recorded in exitless mode only%s%s",
			 s->no_rings.code ? ": " : "", s->no_rings.text);
}

/* This is told once. */
static int give_up(struct trace_session *s, int ret, const struct error *why, struct error *err)
{
	s->direct_failure = *why;
	if (err)
		*err = *why;
	return ret;
}

int direct_start(struct trace_session *s, bool meanwhile, struct error *err)
{
	const struct lane_plan all = {.session = s, .list = &s->instances, .lenient = meanwhile};
	struct error why;
	int ret;

	if (!s->direct_pending || s->switch_pending || !instances_have_direct(&s->instances))
		return 0;
	if (s->engine != s->ring_engine) {
		s->direct_pending = false;
		return give_up(s, direct_no_rings(s, &why), &why, err);
	}
	/* else a guest that boots has done so, or powered off, when what it was started with is
	 * traced */
	ret = apply(&all, s->from_first_allocation && s->starts == 1, &why);
	/* the guest changes its text, or is about to leave its kernel: the next tick tries again */
	if (meanwhile && (ret == -EAGAIN || ret == -ESTALE))
		return 0;
	s->direct_pending = false;
	return ret ? give_up(s, ret, &why, err) : 0;
}

void direct_forget(struct trace_session *s)
{
	for (size_t i = 0; i < s->instances.n; i++)
		s->instances.v[i]->active = false;
	s->direct_pending = true;
	s->direct_failure.code = 0;
	modules_open_bell(s, 0, false);
	atomic_store(&s->bell.asking, false);
}
