/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Modules that come and go while functions are recorded. */
#include <errno.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"
#include "introspect/guest/memory.h"
#include "patcher/session/internal.h"

enum {
	ENTRY_BYTES = 16, /* the most in front of a mcount site */
	SLICE_NS = 1000000,
};

/* How long a module waits for a thread that is busy. */
static const uint64_t wait_max_ns = 1000000000;
/* How often ORC tables are read for chains that were cut. */
static const uint64_t orcs_ns = 1000000000;

void modules_init(struct trace_session *s)
{
	pthread_mutex_init(&s->bell.lock, NULL);
	thread_cond_init(&s->bell.heard_one);
}

void modules_deinit(struct trace_session *s)
{
	pthread_cond_destroy(&s->bell.heard_one);
	pthread_mutex_destroy(&s->bell.lock);
}

/* The function at whose site the bell is; 0: this guest has none. */
static uint64_t bell_function(const struct trace_session *s)
{
	return s->guest->caps & GUEST_CAP_PORT_TRAP ? kernel_symbol(&s->kernel, "do_init_module")
						    : 0;
}

uint64_t modules_bell_site(const struct trace_session *s, const struct site_table *table,
			   const struct shared_sites *sites)
{
	const uint64_t function = bell_function(s);
	const size_t i = site_table_find(table, function);

	if (!function || i == table->n || table->v[i].gva - function >= ENTRY_BYTES)
		return 0;
	return sites->v[i].refusal ? 0 : table->v[i].gva;
}

/* --- the bell --------------------------------------------------------------------------------- */

/* Those that have rung up to now go on. */
static void hear(struct module_bell *bell, uint64_t rung)
{
	pthread_mutex_lock(&bell->lock);
	bell->heard = rung;
	pthread_cond_broadcast(&bell->heard_one);
	pthread_mutex_unlock(&bell->lock);
}

void modules_open_bell(struct trace_session *s, uint64_t site, bool follows)
{
	struct module_bell *bell = &s->bell;

	bell->site = site;
	bell->was_held = false;
	pthread_mutex_lock(&bell->lock);
	if (!bell->open)
		bell->asked = 0;
	bell->open = site || (follows && session_is_asked(s, ASK_MODULES));
	if (!bell->open) {
		bell->heard = bell->rung;
		bell->tries = 0;
	}
	pthread_cond_broadcast(&bell->heard_one);
	pthread_mutex_unlock(&bell->lock);
}

/* The thread that is to hear the bell may be waiting for this vCPU to stop. */
static void give_way(struct guest *guest)
{
	if (guest->control->is_stopped(guest) && !guest->control->stop(guest, NULL))
		guest->control->resume(guest, NULL);
}

static struct timespec slice_after(uint64_t now_ns)
{
	const uint64_t ns_per_s = 1000000000, until = now_ns + SLICE_NS;

	return (struct timespec){(time_t)(until / ns_per_s), (long)(until % ns_per_s)};
}

void session_on_bell(void *arg)
{
	struct trace_session *s = arg;
	struct module_bell *bell = &s->bell;
	const uint64_t begin = clock_monotonic_ns();
	uint64_t now = begin, ticket;

	pthread_mutex_lock(&bell->lock);
	ticket = bell->open ? ++bell->rung : 0;
	if (ticket && s->options.wake)
		s->options.wake(s->options.wake_arg);
	while (bell->heard < ticket && now - begin < wait_max_ns) {
		const struct timespec until = slice_after(now);

		pthread_cond_timedwait(&bell->heard_one, &bell->lock, &until);
		pthread_mutex_unlock(&bell->lock);
		give_way(s->guest);
		pthread_mutex_lock(&bell->lock);
		now = clock_monotonic_ns();
	}
	count_event(&s->counters, COUNTER_LATE_MODULES, bell->heard < ticket);
	pthread_mutex_unlock(&bell->lock);
}

enum engine_answer modules_answer(struct trace_session *s, uint64_t question)
{
	struct module_bell *bell = &s->bell;
	bool heard;

	pthread_mutex_lock(&bell->lock);
	if (bell->asked != question)
		bell->ticket = bell->open ? ++bell->rung : 0;
	bell->asked = question;
	heard = bell->heard >= bell->ticket;
	pthread_mutex_unlock(&bell->lock);
	/* what cannot be done at once is tried again */
	if (!heard && s->options.wake)
		s->options.wake(s->options.wake_arg);
	return heard ? ANSWER_GO : ANSWER_LATER;
}

/* --- following -------------------------------------------------------------------------------- */

/* A place that was yielded does not hold its old bytes: the guest's ftrace shows when it gives a
 * site back. */
static bool stands(const struct patch *patch, const uint8_t *now)
{
	if (patch->yielded)
		return memcmp(now, patch->old_bytes, patch->size);
	return !memcmp(now, patch->new_bytes, patch->size);
}

static int has_patch(void *arg, struct patch *patch, const uint8_t *now, struct error *err)
{
	bool *standing = arg;

	(void)err;
	*standing &= now && stands(patch, now);
	return 0;
}

/* Those of modules. */
static bool set_stands(struct trace_session *s, const struct patch_set *set)
{
	struct patch_set modules = {.sorted = true};
	const size_t first = patch_set_find(set, kernel_symbol(&s->kernel, "_end"));
	bool standing = true;

	if (!set->applied)
		return true;
	modules.v = set->v + first;
	modules.n = set->n - first;
	patch_set_read(&modules, &s->kernel, has_patch, &standing, NULL);
	return standing;
}

/* A module may be gone and have come again to the same place. */
static bool patches_stand(struct trace_session *s)
{
	return set_stands(s, &s->plan.shared) && set_stands(s, &s->plan.slots);
}

/* Whether it is worth a try: the kernel has the sites of a module in its list a little before its
 * types, and a module whose types did not fit may have come again with the same sites. */
static bool may_learn(struct trace_session *s, const struct session_instance *instance, bool rung)
{
	enum { TRIES = 50 };
	const int why = instance->ops->learn ? instance->failure.code : 0;

	if (!why || why == ENOENT)
		return false;
	return rung || (why == ENODATA && s->learn_tries++ < TRIES);
}

static bool can_learn(struct trace_session *s, const struct session_instance *instance)
{
	int ret = guest_hold_to_read(s->guest, NULL);

	if (ret)
		return false;
	ret = instance->ops->learn(instance->tracer, &s->sites, NULL);
	return !guest_release(s->guest, ret, NULL);
}

static bool have_learnt(struct trace_session *s, bool rung)
{
	bool any = false;

	for (size_t i = 0; i < s->instances.n; i++)
		any |= may_learn(s, s->instances.v[i], rung) && can_learn(s, s->instances.v[i]);
	return any;
}

/* 1 or 0; -EAGAIN: the guest is changing its lists. */
static int has_changed(struct trace_session *s, bool rung)
{
	bool current;

	if (site_table_is_current(&s->sites, &s->kernel, &current, NULL))
		return -EAGAIN;
	return !current || !patches_stand(s) ||
	       module_slots_have_come(&s->slots_seen, &s->kernel) || have_learnt(s, rung);
}

/* What cannot be followed is not tried again until it changes. */
static int give_up(struct trace_session *s, int ret)
{
	struct ftrace_census now;

	if (!ftrace_census_take(&now, &s->kernel, NULL)) {
		ftrace_census_deinit(&s->sites.census);
		s->sites.census = now;
	}
	return ret;
}

/* While the guest's ftrace holds the bell's site, modules load in silence. */
static bool is_bell_held(const struct trace_session *s)
{
	const struct patch *patch = patch_set_at(&s->plan.shared, s->bell.site);

	return !patch || ftrace_site_is_held(patch);
}

/* Where no bell rings, functions that are new have been called before. A bell that is missing comes
 * with a plan of the whole kernel. */
static int follow(struct trace_session *s, bool rings, struct error *err)
{
	const uint64_t before = trace_session_switches(s).times;
	int ret = rings || !bell_function(s) ? direct_follow(s, err)
					     : direct_apply(s, &s->instances, NULL, err);

	if (ret)
		return ret;
	count_event(&s->counters, COUNTER_LATE_MODULES,
		    !rings && trace_session_switches(s).times != before);
	return 0;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* With the guest stopped. A kprobe that is being made has copied what stands there already. */
static bool is_probed(const struct trace_session *s)
{
	return text_lock_is_held(&s->kernel, LOCK_KPROBES) ||
	       session_asks_check_places(s, true, NULL);
}

static bool wants_to_ask(const struct trace_session *s)
{
	enum { TRIES = 50 };
	const struct module_bell *bell = &s->bell;

	return session_is_asked(s, ASK_MODULES) && bell->open && !atomic_load(&bell->asking) &&
	       bell->tries < TRIES && s->engine == s->ring_engine;
}

void modules_begin_asking(struct trace_session *s)
{
	struct engine *engine = s->ring_engine;
	struct error err;
	int ret;

	if (!wants_to_ask(s))
		return;
	s->bell.tries++;
	if (s->guest->control->stop(s->guest, NULL))
		return;
	ret = is_probed(s) ? -EBUSY : engine->ops->ask_many(engine, &err);
	atomic_store(&s->bell.asking, !ret);
	s->guest->control->resume(s->guest, NULL);
	/* modules that have come before that did not ask */
	if (!ret && has_changed(s, false))
		s->bell.was_held = true;
}

/* --- a look ----------------------------------------------------------------------------------- */

/* While the sites are the guest's own, nothing can be recorded: its ftrace may be waiting for a
 * vCPU that waits for the bell to be heard. */
static int leave_out(struct trace_session *s, bool rings)
{
	count_event(&s->counters, COUNTER_LATE_MODULES, rings);
	return 0;
}

static int look(struct trace_session *s, const struct module_bell *now, struct error *err)
{
	const bool rung = now->rung != now->heard;
	bool held, rings;
	int ret;

	if (s->ftrace.out)
		return leave_out(s, rung);
	held = !atomic_load(&s->bell.asking) && is_bell_held(s);
	rings = !held && !s->bell.was_held;
	ret = has_changed(s, rung);
	if (ret > 0)
		return follow(s, rings, err);
	s->bell.was_held = held || (ret && s->bell.was_held);
	return ret;
}

int modules_follow(struct trace_session *s, struct error *err)
{
	struct module_bell *bell = &s->bell, now;
	int ret;

	pthread_mutex_lock(&bell->lock);
	now = (struct module_bell){.rung = bell->rung, .heard = bell->heard, .open = bell->open};
	pthread_mutex_unlock(&bell->lock);
	if (!direct_is_active(s) ||
	    (now.rung == now.heard && !session_look_is_due(s, &s->next_follow)))
		return 0;
	modules_begin_asking(s);
	ret = look(s, &now, err);
	/* next time */
	if (ret == -EAGAIN || ret == -ESTALE || ret == -EBUSY || ret == -ETXTBSY)
		return 0;
	hear(bell, now.rung);
	return ret ? give_up(s, ret) : 0;
}

/* --- stacks ----------------------------------------------------------------------------------- */

/* A chain that cannot be unwound makes them due: what it leads to may be no module's. */
void modules_read_orcs(struct trace_session *s)
{
	const uint64_t now = clock_monotonic_ns();

	if (!module_orcs_are_due(s->module_orcs) || now < s->next_orcs)
		return;
	s->next_orcs = now + orcs_ns;
	if (guest_hold_to_read(s->guest, NULL))
		return;
	module_orcs_update(s->module_orcs, &s->kernel);
	guest_release(s->guest, 0, NULL);
}
