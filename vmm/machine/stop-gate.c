/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/machine/stop-gate.h"

#include <string.h>

/* The member that this thread is, or NULL. */
static __thread struct stop_member *self;

void stop_gate_init(struct stop_gate *gate)
{
	memset(gate, 0, sizeof(*gate));
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->parked, NULL);
	pthread_cond_init(&gate->resumed, NULL);
}

void stop_gate_deinit(struct stop_gate *gate)
{
	pthread_cond_destroy(&gate->resumed);
	pthread_cond_destroy(&gate->parked);
	pthread_mutex_destroy(&gate->lock);
}

void stop_gate_add(struct stop_gate *gate, struct stop_member *member)
{
	pthread_mutex_lock(&gate->lock);
	member->gate = gate;
	member->parked = true;
	gate->members[gate->nr_members++] = member;
	pthread_mutex_unlock(&gate->lock);
}

static void set_parked(struct stop_member *member)
{
	member->parked = true;
	pthread_cond_signal(&member->gate->parked);
}

static void wait_resumed(struct stop_member *member)
{
	struct stop_gate *gate = member->gate;

	while (gate->depth)
		pthread_cond_wait(&gate->resumed, &gate->lock);
	member->parked = false;
}

void stop_gate_enter(struct stop_member *member)
{
	self = member;
	pthread_mutex_lock(&member->gate->lock);
	wait_resumed(member);
	pthread_mutex_unlock(&member->gate->lock);
}

void stop_gate_leave(struct stop_member *member)
{
	pthread_mutex_lock(&member->gate->lock);
	set_parked(member);
	pthread_mutex_unlock(&member->gate->lock);
	self = NULL;
}

void stop_gate_park(struct stop_member *member)
{
	pthread_mutex_lock(&member->gate->lock);
	if (member->gate->depth) {
		set_parked(member);
		wait_resumed(member);
	}
	pthread_mutex_unlock(&member->gate->lock);
}

static bool is_mine(const struct stop_gate *gate)
{
	return gate->depth && pthread_equal(gate->owner, pthread_self());
}

bool stop_gate_is_mine(struct stop_gate *gate)
{
	bool mine;

	pthread_mutex_lock(&gate->lock);
	mine = is_mine(gate);
	pthread_mutex_unlock(&gate->lock);
	return mine;
}

static bool all_parked(const struct stop_gate *gate)
{
	for (size_t i = 0; i < gate->nr_members; i++) {
		if (!gate->members[i]->parked)
			return false;
	}
	return true;
}

static void take_ownership(struct stop_gate *gate)
{
	/* A member that waits for its turn counts as stopped: otherwise two vCPUs could wait for
	 * each other. */
	if (self && self->gate == gate)
		set_parked(self);
	while (gate->depth)
		pthread_cond_wait(&gate->resumed, &gate->lock);
	gate->depth = 1;
	gate->owner = pthread_self();
	atomic_store(&gate->requested, true);
}

/* Under the lock. */
static void stop_members(struct stop_gate *gate)
{
	if (is_mine(gate)) {
		gate->depth++;
		return;
	}
	take_ownership(gate);
	for (size_t i = 0; i < gate->nr_members; i++) {
		if (!gate->members[i]->parked)
			gate->members[i]->kick(gate->members[i]->arg);
	}
	while (!all_parked(gate))
		pthread_cond_wait(&gate->parked, &gate->lock);
}

void stop_gate_stop(struct stop_gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	stop_members(gate);
	pthread_mutex_unlock(&gate->lock);
}

bool stop_gate_try_stop(struct stop_gate *gate)
{
	bool can;

	pthread_mutex_lock(&gate->lock);
	can = !gate->depth || is_mine(gate);
	if (can)
		stop_members(gate);
	pthread_mutex_unlock(&gate->lock);
	return can;
}

void stop_gate_resume(struct stop_gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	if (--gate->depth == 0) {
		if (self && self->gate == gate)
			self->parked = false;
		atomic_store(&gate->requested, false);
		pthread_cond_broadcast(&gate->resumed);
	}
	pthread_mutex_unlock(&gate->lock);
}
