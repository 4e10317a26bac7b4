/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When nothing of the guest is in our memory any more. */
#include <errno.h>
#include "patcher/engine/ring-engine-internal.h"

static void leave(struct ring_engine *x)
{
	ring_engine_drain_all(x);
	if (!ring_engine_unmap(x, &x->left_error))
		x->left_error.code = 0;
}

bool ring_engine_try_leave(struct ring_engine *x)
{
	bool left = false;

	if (!quiesce_is_promising(&x->quiesce))
		return false;
	/* a vCPU that waits in its trap for the thread could not be stopped */
	atomic_store(&x->stopping, true);
	pthread_mutex_lock(&x->lock);
	pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
	if (!x->guest->control->try_stop(x->guest, NULL)) {
		left = !quiesce_check(&x->quiesce, NULL);
		if (left)
			leave(x);
		x->guest->control->resume(x->guest, NULL);
	}
	atomic_store(&x->stopping, false);
	return left;
}

void ring_engine_leave(struct ring_engine *x)
{
	const struct quiesce_policy policy = {
		.tasks = &x->tasks, .gva = x->mapping.gva, .size = x->set.code_bytes};

	pthread_mutex_lock(&x->lock);
	/* no more vCPUs than a merge has rings */
	quiesce_begin(&x->quiesce, x->guest, &policy, NULL);
	x->leaving = true;
	x->rung = true;
	pthread_cond_signal(&x->wake);
	pthread_mutex_unlock(&x->lock);
}

bool ring_engine_has_left(struct ring_engine *x, unsigned int ms)
{
	struct timespec until = ring_engine_deadline(clock_monotonic_ns(), (uint64_t)ms * 1000000);
	bool left;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	while (!x->left && !ret)
		ret = pthread_cond_timedwait(&x->passed, &x->lock, &until);
	left = x->left;
	pthread_mutex_unlock(&x->lock);
	return left;
}

const struct error *ring_engine_leave_error(const struct ring_engine *x)
{
	return x->left_error.code ? &x->left_error : NULL;
}
