/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From traps to trampolines, and out of them. */
#include <errno.h>
#include "patcher/session/internal.h"

enum { LOOK_AGAIN_NS = 10000000, LEAVE_MS = 10000, PAUSED_MS = 200, SLICE_MS = 10 };

static void handle(void *arg, const struct probe_ref *ref, enum probe_point point,
		   const struct probe_hit *hit)
{
	session_dispatch(arg, ref, point, hit);
}

static enum trampoline_full when_full(const struct trace_session *s)
{
	if (s->options.drop)
		return TRAMPOLINE_DROP;
	return s->guest->caps & GUEST_CAP_PORT_TRAP ? TRAMPOLINE_BLOCK : TRAMPOLINE_SPIN;
}

static int put_trampolines(struct trace_session *s, struct error *err)
{
	const struct ring_engine_config config = {.ring_bytes = s->options.ring_bytes,
						  .full = when_full(s),
						  .handle = handle,
						  .arg = s};
	struct ring_engine *x = NULL;
	int ret = ring_engine_create(&s->kernel, &s->plan, &s->traps, s->decoder, &config, &x, err);

	if (ret)
		return ret;
	ret = ring_engine_start(x, err);
	if (!ret)
		ret = patch_plan_apply(&s->plan, &s->kernel, err);
	if (ret) {
		patch_plan_use_traps(&s->plan);
		ring_engine_cancel(x);
		return ret;
	}
	s->exitless = x;
	s->was_exitless = true;
	return 0;
}

/* Text that cannot be put back as traps is an error; all else only means that traps stay. */
int session_switch(struct trace_session *s, struct error *err)
{
	struct error why;
	int ret = patch_plan_revert(&s->plan, &s->kernel, NULL, err);

	if (ret)
		return ret;
	ret = put_trampolines(s, &why);
	if (!ret) {
		s->switch_pending = false;
		s->clocks_stale = true;
		return 0;
	}
	if (ret != -EAGAIN) {
		s->no_exitless = why;
		s->switch_pending = false;
	}
	return patch_plan_apply(&s->plan, &s->kernel, err);
}

int session_start_without_traps(struct trace_session *s, struct error *err)
{
	int ret;

	if (!s->options.exitless)
		return error_set(err, ENOTSUP, "this kind of guest cannot be traced by traps");
	if (boot_window_is_open(&s->kernel))
		return error_set(err, EAGAIN, "the guest is still booting");
	ret = session_plan(s, err);
	s->no_exitless = (struct error){0};
	return ret ? ret : put_trampolines(s, err);
}

/* SYSTEM_BOOTING 0, SYSTEM_SCHEDULING 1 while other CPUs are started (include/linux/kernel.h) */
static bool has_started_cpus(const struct kernel *kernel)
{
	uint32_t state;

	return kernel_read_u32(kernel, "system_state", &state, NULL) || state > 1;
}

static void look(struct trace_session *s)
{
	struct error err;

	if (s->yield.out)
		return;
	if (s->switch_pending) {
		if (s->enabled && session_switch(s, &err))
			first_error_set(&s->failure, &err);
	} else if (s->exitless) {
		ring_engine_read_clocks(s->exitless, NULL);
		s->clocks_stale = !has_started_cpus(&s->kernel);
	}
}

void session_look_again(struct trace_session *s)
{
	struct guest *guest = s->guest;
	uint64_t now;

	if (!atomic_load(&s->switch_pending) && !s->clocks_stale)
		return;
	now = guest->clock->now_ns(guest);
	if (now < atomic_load(&s->next_look) || boot_window_is_open(&s->kernel))
		return;
	atomic_store(&s->next_look, now + LOOK_AGAIN_NS);
	if (guest->control->stop(guest, NULL))
		return;
	look(s);
	guest->control->resume(guest, NULL);
}

static void keep_counts(struct trace_session *s)
{
	for (unsigned int i = 0; i < s->guest->nr_vcpus && i < TRACE_MAX_VCPUS; i++)
		session_exitless_counts(s, i, &s->past[i]);
	s->past_doorbells += ring_engine_doorbells(s->exitless);
}

void session_leave(struct trace_session *s)
{
	s->switch_pending = s->clocks_stale = false;
	if (s->exitless)
		ring_engine_leave(s->exitless);
}

static void forget(struct trace_session *s)
{
	struct ring_engine *x = s->exitless;
	const bool traps = s->guest->caps & GUEST_CAP_PORT_TRAP;
	const struct error *failure;

	ring_engine_end(x);
	failure = ring_engine_leave_error(x);
	if (failure)
		first_error_set(&s->failure, failure);
	keep_counts(s);
	/* an OUT of the guest's own may have a vCPU look at it any time */
	if (traps)
		s->guest->control->stop(s->guest, NULL);
	s->exitless = NULL;
	if (traps)
		s->guest->control->resume(s->guest, NULL);
	ring_engine_destroy(x);
}

/* Waits only as long as the guest runs; a moment's stop may be that of the leaving itself. */
static bool wait_to_leave(struct trace_session *s)
{
	unsigned int paused = 0;

	for (unsigned int ms = 0; ms < LEAVE_MS && paused < PAUSED_MS; ms += SLICE_MS) {
		if (ring_engine_has_left(s->exitless, SLICE_MS))
			return true;
		paused = s->guest->control->is_stopped(s->guest) ? paused + SLICE_MS : 0;
	}
	return false;
}

int session_finish_leaving(struct trace_session *s, struct error *err)
{
	if (!s->exitless)
		return 0;
	if (!wait_to_leave(s))
		return error_set(err, EBUSY, "the guest does not get out of memory of ours");
	forget(s);
	return 0;
}

void session_end(struct trace_session *s)
{
	s->switch_pending = s->clocks_stale = false;
	if (s->exitless)
		forget(s);
}

void session_exitless_counts(const struct trace_session *s, unsigned int vcpu,
			     struct trace_counters *out)
{
	*out = s->past[vcpu];
	if (s->exitless)
		ring_engine_counts(s->exitless, vcpu, out);
}
