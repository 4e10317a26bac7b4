/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/session/sampler.h"

static const uint64_t second = 1000000000;

void sampler_begin(struct sampler *s, uint64_t max_rate, uint64_t now)
{
	s->max_rate = max_rate;
	s->second_ns = s->on_since = now;
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

void sampler_end(struct sampler *s, uint64_t now)
{
	stop_counting(s, now);
	if (s->on_since)
		s->on_ns += since(s->on_since, now);
	s->on_since = 0;
}

void sampler_counts(const struct sampler *s, uint64_t now, struct trace_counters *out)
{
	out->v[COUNTER_SAMPLINGS] = s->times;
	out->v[COUNTER_UNSAMPLED_NS] = s->out_ns + (s->out ? since(s->out_since_ns, now) : 0);
	out->v[COUNTER_TRACING_NS] = s->on_ns + (s->on_since ? since(s->on_since, now) : 0);
}

bool sampler_is_over(struct sampler *s, bool is_call, bool any_open, uint64_t now)
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

void sampler_out(struct sampler *s, uint64_t now)
{
	if (s->out)
		return;
	s->out = true;
	s->out_since_ns = now;
	s->times++;
}

void sampler_in(struct sampler *s, uint64_t now)
{
	stop_counting(s, now);
	s->second_ns = now;
	s->calls = 0;
}

void sampler_gap(struct sampler *s, uint64_t ns)
{
	if (s->out)
		return; /* counted as that */
	s->out_ns += ns;
	s->times++;
}

bool sampler_is_due(const struct sampler *s, uint64_t now)
{
	return s->out && now - s->second_ns >= second;
}
