/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which engine a session has: traps first, rings as soon as the guest is ready for them. */
#include <errno.h>
#include "formats/base/clock.h"
#include "formats/output/output.h"
#include "patcher/coexist/watchdogs.h"
#include "patcher/session/internal.h"

enum { POLL_NS = 10000000 /* between two tries to install or refresh rings */ };

int session_create_engines(struct trace_session *s, struct error *err)
{
	const struct engine_config config = {.kernel = &s->kernel,
					     .plan = &s->plan,
					     .traps = &s->traps,
					     .decoder = s->decoder,
					     .reader = &s->reader,
					     .failure = &s->failure,
					     .emit = session_emit,
					     .taker = session_taker,
					     .take_run = session_take_run,
					     .emitted = session_emitted,
					     .bell = session_on_bell,
					     .arg = s,
					     .asks = &s->asks.config,
					     .pids = &s->pids,
					     .stacks = &s->calls->stacks,
					     .ring_bytes = s->options.ring_bytes,
					     .drop = s->options.drop};
	int ret = 0;

	if (!s->trap_engine)
		ret = trap_engine_create(&config, &s->trap_engine, err);
	if (!ret && s->options.exitless && !s->ring_engine)
		ret = ring_engine_create(&config, &s->ring_engine, err);
	if (!ret && !s->engine)
		s->engine = s->trap_engine;
	return ret;
}

/* A trap's vCPU has interrupts off. It waits as long as one waits for room in a ring. */
unsigned int session_patience_ms(void *arg)
{
	static const uint64_t ns_per_ms = 1000000;
	const struct trace_session *s = arg;

	if (s->engine != s->trap_engine)
		return OUTPUT_STALL_MS;
	return (unsigned int)(watchdogs_allow_ns(&s->kernel, watchdogs_patience_ns) / ns_per_ms);
}

/* Probes that no instance wants must not keep rings away from the direct lane. */
static bool has_only_off(const struct trace_session *s)
{
	return s->plan.nr_refs && !patch_set_wanted(&s->plan.entries);
}

int session_find_stacks(struct trace_session *s)
{
	struct task_stacks found;
	int ret = task_stacks_init(&s->kernel, &found, NULL);

	if (!ret)
		s->stacks = found;
	return ret;
}

bool session_tries_again(unsigned int *tries)
{
	enum { TRIES = 20, WAIT_MS = 2 };

	if (++*tries >= TRIES)
		return false;
	clock_wait_ms(WAIT_MS);
	return true;
}

/* The guest is not ready, or a task is where its text is to be changed. */
static bool passes_by_itself(int error)
{
	return error == -EAGAIN || error == -ETXTBSY;
}

static int install_rings(struct trace_session *s, struct error *err)
{
	struct engine *rings = s->ring_engine;
	struct error why;
	int ret = rings->ops->install(rings, &why);

	if (ret && !passes_by_itself(ret) && ret != -ENOTRECOVERABLE && has_only_off(s)) {
		tracer_set_give_up(&s->tracers, &why);
		patch_plan_drop_off(&s->plan);
		s->plan.nr_refs = 0;
		ret = rings->ops->install(rings, &why);
	}
	if (ret && err)
		*err = why;
	if (!ret || ret == -ENOTRECOVERABLE)
		s->engine = rings;
	if (ret)
		return ret;
	s->had_rings = true;
	pids_begin(s);
	return 0;
}

/* Text that cannot be restored, or that takes no traps again, is an error. All else means that the
 * traps stay. */
static int switch_engines(struct trace_session *s, struct error *err)
{
	struct engine *traps = s->trap_engine;
	struct error why;
	int ret = traps->ops->withdraw(traps, NULL, err);

	if (ret)
		return ret;
	ret = install_rings(s, &why);
	if (!ret) {
		s->switch_pending = false;
		s->refreshing = true;
		return 0;
	}
	if (ret == -ENOTRECOVERABLE) {
		s->switch_pending = false;
		if (err)
			*err = why;
		return ret;
	}
	if (!passes_by_itself(ret)) {
		s->no_rings = why;
		s->switch_pending = false;
	}
	return traps->ops->install(traps, err);
}

/* The plan may have been made in early boot. Where its traps are, no task is between the
 * instructions that they cover. */
int session_switch(struct trace_session *s, struct error *err)
{
	int ret;

	session_find_stacks(s);
	s->plan.returns.vacant = s->plan.returns.applied;
	ret = switch_engines(s, err);
	s->plan.returns.vacant = false;
	return ret;
}

int session_start_without_traps(struct trace_session *s, struct error *err)
{
	int ret;

	if (!s->options.exitless)
		return error_set(err, ENOTSUP, "this kind of guest cannot be traced by traps");
	if (kernel_is_booting(&s->kernel))
		return error_set(err, EAGAIN, "the guest is still booting");
	ret = session_plan(s, err);
	s->no_rings = (struct error){0};
	if (!ret)
		ret = trace_session_check_exitless(s, err);
	if (!ret)
		ret = ftrace_handoff_begin(&s->ftrace, err);
	if (!ret)
		ret = kprobe_handoff_begin(&s->kprobes, err);
	if (!ret)
		ret = install_rings(s, err);
	s->asks.active = s->engine == s->ring_engine;
	return ret;
}

/* With the guest stopped. */
static void poll_engine(struct trace_session *s)
{
	struct engine *engine = s->engine;
	struct error err;

	if (s->ftrace.out)
		return;
	if (!s->switch_pending)
		s->refreshing = engine->ops->refresh(engine);
	else if (s->enabled && session_switch(s, &err))
		first_error_set(&s->failure, &err);
}

void session_poll(struct trace_session *s)
{
	struct guest *guest = s->guest;
	uint64_t now;

	if (!atomic_load(&s->switch_pending) && !s->refreshing)
		return;
	now = guest->clock->now_ns(guest);
	if (now < atomic_load(&s->next_poll) || kernel_is_booting(&s->kernel))
		return;
	atomic_store(&s->next_poll, now + POLL_NS);
	if (guest->control->stop(guest, NULL))
		return;
	poll_engine(s);
	guest->control->resume(guest, NULL);
}

int session_finish(struct trace_session *s, struct error *err)
{
	struct engine *engine = s->engine;
	int ret = engine->ops->finish(engine, err);

	if (!ret)
		s->engine = s->trap_engine;
	return ret;
}

int session_end_engine(struct trace_session *s, struct patch_outcome *outcome, struct error *err)
{
	struct engine *engine = s->engine;
	int ret;

	s->switch_pending = s->refreshing = false;
	if (!engine)
		return 0;
	ret = engine->ops->end(engine, outcome, err);
	s->engine = s->trap_engine;
	return ret;
}
