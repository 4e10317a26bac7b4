/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "introspect/guest/memory.h"
#include "patcher/session/internal.h"
#include "patcher/tracers/tracer.h"

/* How often to look at a guest that is stopped for each read of its memory. */
static const uint64_t slow_look_ns = 2000000000;

/* --- life ----------------------------------------------------------------------------------- */

int trace_session_create(struct guest *guest, const struct kernel_image *image,
			 struct trace_writer *writer, struct trace_session **out, struct error *err)
{
	struct trace_session *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->guest = guest;
	s->image = image;
	s->writer = writer;
	guest->budget = writer ? trace_writer_budget(writer) : NULL;
	if (writer)
		trace_writer_set_patience(writer, session_patience_ms, s);
	s->reader = (struct trap_reader){.kernel = &s->kernel,
					 .plan = &s->plan,
					 .traps = &s->traps,
					 .oneshots = &s->oneshots,
					 .counters = &s->counters};
	trap_table_init(&s->traps);
	s->direct_pending = true;
	modules_init(s);
	session_cpus_init(s);
	s->stream_ops = &session_streams;
	s->ftrace.kernel = s->kprobes.kernel = &s->kernel;
	s->ftrace.plan = s->kprobes.plan = &s->plan;
	s->ftrace.oneshots = s->kprobes.oneshots = &s->oneshots;
	s->ftrace.failure = s->kprobes.failure = &s->failure;
	session_asks_init(s);
	ret = decoder_create(&s->decoder, err);
	if (!ret)
		ret = call_table_create(guest->budget, &s->calls, err);
	if (!ret)
		call_table_set_leaving(s->calls, ordered_is_leaving, s);
	if (!ret)
		ret = module_orcs_create(guest->budget, &s->module_orcs, err);
	if (!ret)
		ret = trap_reader_init(&s->reader, err);
	if (!ret)
		ret = session_create_engines(s, err);
	if (ret)
		trace_session_destroy(s);
	else
		*out = s;
	return ret;
}

static void destroy_tracers(struct trace_session *s)
{
	kprobe_handoff_forget(&s->kprobes);
	free(s->refused);
	s->refused = NULL;
	free(s->gaps);
	s->gaps = NULL;
	s->gaps_room = 0;
	patch_plan_deinit(&s->plan);
	ordered_forget(s);
	tracer_set_destroy(&s->tracers);
	trap_table_deinit(&s->traps);
	trap_table_init(&s->traps);
}

void trace_session_destroy(struct trace_session *s)
{
	if (!s)
		return;
	trace_session_stop(s, NULL);
	session_end_engine(s, NULL, NULL);
	engine_destroy(s->ring_engine);
	engine_destroy(s->trap_engine);
	destroy_tracers(s);
	instances_destroy(s);
	site_table_deinit(&s->sites);
	oneshot_deinit(&s->oneshots);
	trap_table_deinit(&s->traps);
	kernel_names_destroy(s->names);
	module_orcs_destroy(s->module_orcs);
	trap_reader_deinit(&s->reader);
	call_table_destroy(s->calls);
	decoder_destroy(s->decoder);
	modules_deinit(s);
	session_cpus_deinit(s);
	s->guest->budget = NULL;
	if (s->writer)
		trace_writer_set_patience(s->writer, NULL, NULL);
	free(s);
}

void trace_session_set_options(struct trace_session *s, const struct trace_options *options)
{
	s->options = *options;
}

void trace_session_kernel_at(struct trace_session *s, uint64_t virt_slide, uint64_t phys_text)
{
	kernel_at(&s->kernel, s->guest, s->image, virt_slide, phys_text);
	s->kernel.module_orcs = s->module_orcs;
	s->located = true;
}

static bool has_traps(const struct trace_session *s)
{
	return guest_has_traps(s->guest);
}

/* --- taking back ---------------------------------------------------------------------------- */

/* The engine's patches are out: until then the guest asks before it changes its text. */
static void end_coexisting(struct trace_session *s)
{
	s->asks.active = false;
	ftrace_handoff_end(&s->ftrace);
	sampler_end(&s->sampler, s->guest->clock->now_ns(s->guest));
}

static int take_back(struct trace_session *s, struct error *err)
{
	struct engine *engine = s->engine;
	const uint64_t since = clock_monotonic_ns();
	size_t shared = (s->plan.shared.applied ? s->plan.shared.n : 0) +
			(s->plan.slots.applied ? s->plan.slots.n : 0) +
			(s->plan.inside.applied ? s->plan.inside.n : 0);
	int ret;

	ret = engine->ops->withdraw(engine, &s->restored, err);
	if (ret)
		return ret;
	s->withdrawn = true;
	end_coexisting(s);
	direct_note_switch(s, shared, since);
	s->switch_pending = s->refreshing = false;
	direct_forget(s);
	ret = oneshot_disarm_all(&s->oneshots, err);
	/* a guest that is about to leave its kernel waits until the tracer's memory has gone */
	if (!ret && has_traps(s) && atomic_load(&s->leaving_kernel))
		ret = session_watch_leaving(s, err);
	s->withdrawn = ret != 0;
	return ret;
}

static int let_leave(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret;

	if (!has_traps(s) || !atomic_load(&s->leaving_kernel))
		return 0;
	ret = guest->control->stop(guest, err);
	if (ret)
		return ret;
	ret = oneshot_disarm_all(&s->oneshots, err);
	guest->control->resume(guest, NULL);
	return ret;
}

/* --- start ---------------------------------------------------------------------------------- */

/* No specs: those of the last start. */
static int keep_specs(struct trace_session *s, const char *const *specs, struct error *err)
{
	static const char *const standard[] = {TRACER_DEFAULT_SPEC, NULL};
	size_t n = 0;

	if (!specs || !specs[0]) {
		if (s->instances.n)
			return 0;
		specs = standard;
	}
	while (specs[n])
		n++;
	return trace_session_set_instances(s, specs, n, err);
}

static int create_tracers(struct trace_session *s, struct error *err)
{
	const struct tracer_context context = {.kernel = &s->kernel,
					       .writer = s->writer,
					       .batch = &s->batch,
					       .calls = s->calls,
					       .counters = &s->counters};
	struct tracer_stream streams[TRACE_MAX_INSTANCES];
	const char *specs[TRACE_MAX_INSTANCES];
	int ret;
	size_t n;

	destroy_tracers(s);
	pids_prepare(s);
	ret = instances_prepare(s, &s->instances, &s->instances, err);
	if (ret)
		return ret;
	n = instances_ordered(s, &s->instances, specs, streams);
	ret = guest_hold_to_read(s->guest, err);
	if (ret)
		return ret;
	ret = tracer_set_create(&s->tracers, specs, streams, n, &context, err);
	return guest_release(s->guest, ret, err);
}

int session_plan(struct trace_session *s, struct error *err)
{
	struct patch_request request = {
		.refs = s->tracers.refs, .nr_refs = s->tracers.nr_refs, .view = s->tracers.view};
	int ret;

	s->stacks = (struct task_stacks){0};
	if (!session_find_stacks(s) || kernel_is_booting(&s->kernel))
		request.tasks = &s->stacks;
	session_asks_find(s);
	request.ftrace_handoff = session_is_asked(s, ASK_FTRACE);
	ret = patch_plan_make(&s->plan, &request, &s->kernel, s->decoder, &s->traps, err);
	if (ret)
		return ret;
	free(s->refused);
	s->refused = calloc(s->plan.nr_refused + s->plan.entries.n + s->plan.returns.n + 1,
			    sizeof(*s->refused));
	return s->refused ? 0 : error_set(err, ENOMEM, "out of memory");
}

static void prepare_oneshots(struct trace_session *s)
{
	oneshot_deinit(&s->oneshots);
	oneshot_init(&s->oneshots, &s->kernel, &s->traps);
	s->boot = (struct boot_window){.kernel = &s->kernel,
				       .plan = &s->plan,
				       .traps = &s->traps,
				       .oneshots = &s->oneshots,
				       .failure = &s->failure,
				       .entry = session_boot_entry,
				       .ret = session_boot_return,
				       .arg = s};
}

/* With the guest stopped: all patches, or none. */
static int put_traps(struct trace_session *s, struct error *err)
{
	bool booting = kernel_is_booting(&s->kernel);
	int ret = booting ? boot_window_arm(&s->boot, err) : 0;

	if (!ret)
		ret = ftrace_handoff_begin(&s->ftrace, err);
	if (!ret)
		ret = kprobe_handoff_begin(&s->kprobes, err);
	if (!ret)
		ret = session_watch_leaving(s, err);
	s->plan.returns.vacant = booting;
	if (!ret)
		ret = s->trap_engine->ops->install(s->trap_engine, err);
	s->plan.returns.vacant = false;
	if (ret)
		oneshot_disarm_all(&s->oneshots, NULL);
	return ret;
}

static int plan_and_patch(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret = session_plan(s, err);

	if (ret)
		return ret;
	ret = guest->traps->set_handler(guest, session_on_trap, s, err);
	if (!ret)
		ret = put_traps(s, err);
	if (ret)
		guest->traps->set_handler(guest, NULL, NULL, NULL);
	return ret;
}

static void want_rings(struct trace_session *s)
{
	s->no_rings = (struct error){0};
	s->had_rings = false;
	atomic_store(&s->next_poll, 0);
	atomic_store(&s->switch_pending, s->options.exitless);
}

/* Switch at once if the guest has booted. Else traps stay until it is ready. */
static int switch_if_ready(struct trace_session *s, struct error *err)
{
	want_rings(s);
	if (!s->switch_pending || kernel_is_booting(&s->kernel))
		return 0;
	return session_switch(s, err);
}

static int start_stopped(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	bool first;
	int ret = boot_window_check_start(&s->kernel, &first, err);

	if (!ret && !has_traps(s))
		ret = session_start_without_traps(s, err);
	else if (!ret)
		ret = plan_and_patch(s, err);
	if (ret && s->engine == s->trap_engine)
		return ret;
	if (!ret && has_traps(s))
		ret = switch_if_ready(s, err);
	if (ret) {
		s->enabled = take_back(s, NULL) != 0;
		/* rings that are being left may still trap */
		if (!s->enabled && s->engine == s->trap_engine)
			guest->traps->set_handler(guest, NULL, NULL, NULL);
		return ret;
	}
	s->enabled = true;
	instances_note_asked(&s->instances);
	session_note_cpus(s);
	sampler_begin(&s->sampler, s->options.max_rate, guest->clock->now_ns(guest));
	if (!s->starts++)
		s->from_first_allocation = first;
	return 0;
}

int trace_session_locate(struct trace_session *s, struct error *err)
{
	int ret;

	if (s->located)
		return kernel_confirm(&s->kernel)
			       ? 0
			       : error_set_at(err, ESTALE, s->kernel.phys_text,
					      "the kernel is not where it was loaded");
	ret = guest_hold_to_read(s->guest, err);
	if (ret)
		return ret;
	ret = kernel_find(s->guest, s->image, &s->kernel, err);
	s->kernel.module_orcs = s->module_orcs;
	s->located = !ret;
	return guest_release(s->guest, ret, err);
}

static void forget_calls(struct trace_session *s)
{
	session_forget_open_calls(s);
	if (has_traps(s))
		s->guest->traps->set_handler(s->guest, NULL, NULL, NULL);
}

/* Keep the specs, and find the kernel. */
static int prepare(struct trace_session *s, const char *const *specs, struct error *err)
{
	int ret;

	if (s->enabled)
		return error_set(err, EALREADY, "tracing is on already");
	ret = keep_specs(s, specs, err);
	if (!ret)
		ret = direct_check_image(s, err);
	if (!ret)
		ret = trace_session_locate(s, err);
	return ret ? ret : direct_check_functions(s, &s->instances, err);
}

/* -ETXTBSY: a task may be where the guest's text is to be changed. */
static int start_once(struct trace_session *s, struct error *err)
{
	int ret;

	forget_calls(s);
	ret = create_tracers(s, err);
	if (!ret)
		ret = text_locks_stop(&s->kernel, err);
	if (ret)
		return ret;
	prepare_oneshots(s);
	s->leaving_kernel = NULL;
	s->crashed = false;
	s->cpus_differ = (struct first_error){0};
	s->restored = (struct patch_outcome){0};
	ret = start_stopped(s, err);
	s->guest->control->resume(s->guest, NULL);
	return ret;
}

int trace_session_start(struct trace_session *s, const char *const *specs, struct error *err)
{
	unsigned int tries = 0;
	int ret = prepare(s, specs, err);

	if (ret)
		return ret;
	session_follow_memory(s);
	ret = session_create_engines(s, err);
	/* a stop may have left trampolines in a guest that was paused */
	if (!ret)
		ret = session_finish(s, err);
	if (!ret)
		ret = let_leave(s, err);
	if (ret)
		return ret;
	if (!has_traps(s))
		session_see_cpus(s);
	do
		ret = start_once(s, err);
	while (ret == -ETXTBSY && !s->enabled && session_tries_again(&tries));
	if (ret)
		return ret;
	ret = direct_start(s, false, err);
	if (ret)
		trace_session_stop(s, NULL);
	return ret;
}

bool session_look_is_due(const struct trace_session *s, uint64_t *next)
{
	const uint64_t now = clock_monotonic_ns();

	if (s->guest->caps & GUEST_STOPS_TO_READ && now < *next)
		return false;
	*next = now + slow_look_ns;
	return true;
}

int trace_session_tick(struct trace_session *s, struct error *err)
{
	int ret;

	instances_reap(s);
	if (!s->enabled || s->withdrawn)
		return 0;
	ret = session_end_gap(s, err);
	if (ret)
		return ret;
	session_poll(s);
	session_follow_cpus(s);
	session_watch_crash(s);
	session_narrow(s);
	ret = direct_start(s, true, err);
	ret = ret ? ret : modules_follow(s, err);
	if (!ret)
		modules_read_orcs(s);
	return ret;
}

int trace_session_plan(struct trace_session *s, const char *const *specs,
		       const struct patch_plan **out, struct error *err)
{
	int ret = prepare(s, specs, err);

	if (!ret)
		ret = create_tracers(s, err);
	if (!ret)
		ret = session_plan(s, err);
	if (!ret)
		pids_plan(s);
	if (!ret)
		patch_plan_drop_off(&s->plan);
	if (!ret)
		ret = direct_plan(s, &s->instances, err);
	*out = &s->plan;
	return ret;
}

/* --- stop ----------------------------------------------------------------------------------- */

int trace_session_stop(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret;

	if (!s->enabled)
		return error_set(err, EALREADY, "tracing is off already");
	session_follow_memory(s);
	ret = guest->control->stop(guest, err);
	if (ret)
		return ret;
	ret = take_back(s, err);
	/* while a trap may still stand it needs its handler */
	s->enabled = ret != 0;
	guest->control->resume(guest, NULL);
	if (ret)
		return ret;
	/* a paused guest cannot be waited for: the next start does this then */
	ret = session_finish(s, err);
	if (!ret)
		ret = let_leave(s, err);
	if (!ret)
		forget_calls(s);
	instances_reap(s);
	return ret == -EINPROGRESS ? 0 : ret;
}

int trace_session_end(struct trace_session *s, struct error *err)
{
	const bool enabled = s->enabled;
	int ret, disarmed;

	ret = session_end_engine(s, enabled ? &s->restored : NULL, err);
	if (enabled)
		end_coexisting(s);
	direct_forget(s);
	disarmed = oneshot_disarm_all(&s->oneshots, ret ? NULL : err);
	ret = ret ? ret : disarmed;
	s->enabled = s->withdrawn = false;
	forget_calls(s);
	instances_tell_losses(s);
	return ret;
}
