/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between which two hits something is to happen: behind all that are in the rings now. */
#include "patcher/engine/ring-internal.h"

static void call(struct ring_engine *x)
{
	x->settle.fn(x->settle.arg);
	x->settle.taken = false;
	atomic_store(&x->settle.pending, false);
}

void ring_engine_settle(struct engine *engine, engine_settle_fn *fn, void *arg)
{
	struct ring_engine *x = ring_engine_of(engine);

	x->settle.fn = fn;
	x->settle.arg = arg;
	if (!x->running) {
		call(x);
		return;
	}
	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		x->settle.marks[i] =
			__atomic_load_n(&x->rings[i].header->reserve, __ATOMIC_ACQUIRE);
	atomic_store(&x->settle.pending, true);
	ring_engine_wake(x);
}

bool ring_engine_is_settling(struct ring_engine *x)
{
	return atomic_load(&x->settle.pending);
}

static bool is_taken(const struct ring_engine *x)
{
	bool taken = true;

	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++) {
		const struct ring *ring = &x->rings[i];

		taken &= ring->closed || ring_has_passed(ring, x->settle.marks[i]);
	}
	return taken;
}

static uint64_t latest_stamp(const struct ring_engine *x)
{
	uint64_t latest = 0;

	for (unsigned int i = 0; i < 2 * x->nr_vcpus; i++)
		if (x->rings[i].floor > latest)
			latest = x->rings[i].floor;
	return latest;
}

/* First all records of then leave the rings; what waits in the queues behind them has later stamps
 * at most. */
void ring_engine_try_settle(struct ring_engine *x)
{
	if (!ring_engine_is_settling(x))
		return;
	if (!x->settle.taken && is_taken(x)) {
		x->settle.due = latest_stamp(x);
		x->settle.taken = true;
	}
	if (x->settle.taken && x->merge.watermark >= x->settle.due)
		call(x);
}

void ring_engine_settle_now(struct ring_engine *x)
{
	if (ring_engine_is_settling(x))
		call(x);
}
