/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Removes traps that come too often for a time. */
#include <errno.h>
#include "formats/base/clock.h"
#include "patcher/session/internal.h"

static const uint64_t second = 1000000000;

void sampler_begin(struct sampler *s, uint64_t max_rate, uint64_t now)
{
	s->max_rate = max_rate;
	s->second_ns = s->on_since = now;
	s->on_since_host = clock_monotonic_ns();
	s->calls = 0;
	s->out = false;
}

static uint64_t since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

static void stop_counting(struct sampler *s, uint64_t now)
{
	if (s->out)
		s->out_ns += since(s->out_since_ns, now);
	s->out = false;
}

/* By the trace clock, or the host's if that was not known at first. */
static uint64_t on_ns(const struct sampler *s, uint64_t now)
{
	if (!s->on_since_host)
		return s->on_ns;
	if (!s->on_since)
		return s->on_ns + since(s->on_since_host, clock_monotonic_ns());
	return s->on_ns + since(s->on_since, now);
}

void sampler_end(struct sampler *s, uint64_t now)
{
	stop_counting(s, now);
	s->on_ns = on_ns(s, now);
	s->on_since_host = 0;
}

void sampler_counts(const struct sampler *s, uint64_t now, struct trace_counters *out)
{
	out->v[COUNTER_SAMPLINGS] = s->times;
	out->v[COUNTER_UNSAMPLED_NS] = s->out_ns + (s->out ? since(s->out_since_ns, now) : 0);
	out->v[COUNTER_TRACING_NS] = on_ns(s, now);
}

/* Whether the traps must be removed after a trap. They stay while a call is open, up to twice the
 * number of calls. */
static bool is_over(struct sampler *s, bool is_call, bool any_open, uint64_t now)
{
	if (!s->max_rate)
		return false;
	if (now - s->second_ns >= second) {
		s->second_ns = now;
		s->calls = 0;
	}
	s->calls += is_call;
	return s->calls >= s->max_rate && (!any_open || s->calls / 2 >= s->max_rate);
}

static void note_out(struct sampler *s, uint64_t now)
{
	if (s->out)
		return;
	s->out = true;
	s->out_since_ns = now;
	s->times++;
}

static void note_in(struct sampler *s, uint64_t now)
{
	stop_counting(s, now);
	s->second_ns = now;
	s->calls = 0;
}

static void note_gap(struct sampler *s, uint64_t ns)
{
	if (s->out)
		return; /* is part of that gap */
	s->out_ns += ns;
	s->times++;
}

/* Whether it is time to put the traps back. */
static bool is_due(const struct sampler *s, uint64_t now)
{
	return s->out && now - s->second_ns >= second;
}

/* --- in a session ---------------------------------------------------------------------------- */

static uint64_t now_ns(const struct trace_session *s)
{
	return s->guest->clock->now_ns(s->guest);
}

void session_sample(struct trace_session *s, bool is_call)
{
	struct guest *guest = s->guest;
	struct error err;

	if (!s->options.max_rate ||
	    !is_over(&s->sampler, is_call, call_table_is_open(s->calls), now_ns(s)) ||
	    guest->control->stop(guest, NULL))
		return;
	if (patch_plan_revert(&s->plan, &s->kernel, NULL, &err))
		first_error_set(&s->failure, &err);
	else
		note_out(&s->sampler, now_ns(s));
	guest->control->resume(guest, NULL);
}

void session_gap(struct trace_session *s, uint64_t ns)
{
	/* a return whose entry was not seen must not meet a call from before */
	session_forget_open_calls(s);
	note_gap(&s->sampler, ns);
}

/* While the guest's own ftrace holds the sites, no trap is put back. */
static int put_back(struct trace_session *s, struct error *err)
{
	int ret;

	if (s->ftrace.out)
		return 0;
	/* a return whose entry was not seen must not meet a call from before the traps went */
	session_forget_open_calls(s);
	session_find_stacks(s);
	ret = patch_plan_apply(&s->plan, &s->kernel, err);
	if (ret == -ETXTBSY)
		return 0; /* at the next tick */
	if (!ret)
		note_in(&s->sampler, now_ns(s));
	return ret;
}

int session_end_gap(struct trace_session *s, struct error *err)
{
	struct guest *guest = s->guest;
	int ret;

	if (!s->enabled || !is_due(&s->sampler, now_ns(s)))
		return 0;
	ret = guest->control->stop(guest, err);
	if (ret)
		return ret;
	ret = put_back(s, err);
	guest->control->resume(guest, NULL);
	return ret;
}
