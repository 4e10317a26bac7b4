/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When nothing of the guest is in our memory any more. */
#include <errno.h>
#include "introspect/guest/control.h"
#include "patcher/engine/ring-engine-internal.h"

/*
 * An interrupt may have come at the first instructions of a trampoline, and what
 * serves it looks like any other code. But it is over when the CPU is back in user mode, or idle.
 */
static bool has_passed(const struct ring_engine *x, unsigned int index)
{
	struct guest_sregs sregs;

	if (x->guest->control->get_sregs(x->guest, index, &sregs, NULL))
		return false;
	return vcpu_is_outside(&sregs);
}

/* By now it may have gone on with a task that was preempted there. */
static bool is_inside(const struct ring_engine *x, unsigned int index)
{
	struct guest_regs regs;

	return x->guest->control->get_regs(x->guest, index, &regs, NULL) ||
	       regs.rip - x->mapping.gva < x->set.code_bytes;
}

static bool all_passed(struct ring_engine *x)
{
	bool all = true;

	for (unsigned int i = 0; i < x->nr_vcpus; i++) {
		if (!x->vcpus[i].passed)
			x->vcpus[i].passed = has_passed(x, i);
		all &= x->vcpus[i].passed && !is_inside(x, i);
	}
	return all;
}

/* A list that cannot be followed at this moment does not say that nobody is there. */
static bool is_task_inside(const struct ring_engine *x)
{
	bool found = true;

	return task_stacks_find(x->guest, &x->tasks, x->mapping.gva, x->set.code_bytes, &found,
				NULL) ||
	       found;
}

static void leave(struct ring_engine *x)
{
	ring_engine_drain_all(x);
	if (!ring_engine_unmap(x, &x->left_error))
		x->left_error.code = 0;
}

/* Whether it is worth a stop to look more closely. */
static bool may_be_outside(struct ring_engine *x)
{
	bool passed[RING_MERGE_MAX] = {false}, all = true;

	if (!x->guest->control->sample_idle)
		return true;
	x->guest->control->sample_idle(x->guest, passed);
	for (unsigned int i = 0; i < x->nr_vcpus; i++) {
		x->vcpus[i].passed |= passed[i];
		all &= x->vcpus[i].passed;
	}
	return all;
}

bool ring_engine_try_leave(struct ring_engine *x)
{
	bool left = false;

	if (!may_be_outside(x))
		return false;

	/* a vCPU that waits for us in its trap could not be stopped */
	atomic_store(&x->stopping, true);
	pthread_mutex_lock(&x->lock);
	pthread_cond_broadcast(&x->passed);
	pthread_mutex_unlock(&x->lock);
	if (!x->guest->control->try_stop(x->guest, NULL)) {
		left = all_passed(x) && !is_task_inside(x);
		if (left)
			leave(x);
		x->guest->control->resume(x->guest, NULL);
	}
	atomic_store(&x->stopping, false);
	return left;
}

void ring_engine_leave(struct ring_engine *x)
{
	pthread_mutex_lock(&x->lock);
	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->vcpus[i].passed = false;
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
