/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_SESSION_SAMPLER_H
#define SONDE_PATCHER_SESSION_SAMPLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "formats/event/counters.h"

/*
 * How long traps may stay: when so many calls as max_rate were seen within a second, they are to be
 * taken away until the second is over. What is called meanwhile is not known; for how long is.
 * Times are a guest's clock_ns(). One thread at a time; sampler_is_due() is for any.
 */
struct sampler {
	uint64_t max_rate;          /* calls per second; 0: no bound */
	_Atomic uint64_t second_ns; /* when the second has begun */
	uint64_t calls;             /* in it */
	atomic_bool out;            /* the traps are away */
	uint64_t out_since_ns;

	uint64_t times;    /* that they were taken away */
	uint64_t out_ns;   /* in all; of the present time it is not known yet */
	uint64_t on_ns;    /* that tracing was on, gaps included */
	uint64_t on_since; /* 0: it is off */
};

/* Tracing is on from now on, or off. Counters are kept. */
void sampler_begin(struct sampler *sampler, uint64_t max_rate, uint64_t now_ns);
void sampler_end(struct sampler *sampler, uint64_t now_ns);

/*
 * A call was seen. True if the traps have to go: at once, or better when none of the calls seen is
 * still open, up to as many calls again.
 */
bool sampler_is_over(struct sampler *sampler, bool is_call, bool any_open, uint64_t now_ns);
/* The traps are away, and were put back. */
void sampler_out(struct sampler *sampler, uint64_t now_ns);
void sampler_in(struct sampler *sampler, uint64_t now_ns);
/* They were away for `ns` up to now, for another reason. */
void sampler_gap(struct sampler *sampler, uint64_t ns);
/* Fill in the sampler's counters, up to now. */
void sampler_counts(const struct sampler *sampler, uint64_t now_ns, struct trace_counters *out);
/* Whether it is time to put them back. */
bool sampler_is_due(const struct sampler *sampler, uint64_t now_ns);

#endif
