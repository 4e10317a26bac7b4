/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_STOP_GATE_H
#define SONDE_VMM_MACHINE_STOP_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The primitive behind "run this with every vCPU stopped". vCPU threads are its members: they poll
 * stop_gate_requested() before each entry to the guest and then wait at the gate. Whoever stops
 * owns the gate until it resumes; stops of the owner nest, others wait their turn. A member that
 * waits for its turn, or owns the gate, counts as stopped.
 */
struct stop_member {
	struct stop_gate *gate;
	bool parked; /* under the gate's lock */
	/* Make the member's thread leave the guest and look at stop_gate_requested(). */
	void (*kick)(void *arg);
	void *arg;
};

enum { STOP_GATE_MAX_MEMBERS = 64 };

struct stop_gate {
	pthread_mutex_t lock;
	pthread_cond_t parked;  /* a member parked: the owner may be waiting for it */
	pthread_cond_t resumed; /* the gate was given up */
	atomic_bool requested;
	pthread_t owner;
	unsigned int depth; /* 0 = no owner */
	struct stop_member *members[STOP_GATE_MAX_MEMBERS];
	size_t nr_members;
};

/* A gate without members, open. Deinit once no member's thread runs any more. */
void stop_gate_init(struct stop_gate *gate);
void stop_gate_deinit(struct stop_gate *gate);

/* Before its thread runs: it counts as stopped until stop_gate_enter(). Not more than
 * STOP_GATE_MAX_MEMBERS. */
void stop_gate_add(struct stop_gate *gate, struct stop_member *member);

/* The member's own thread, at its begin (waits while the gate is owned) and at its end. */
void stop_gate_enter(struct stop_member *member);
void stop_gate_leave(struct stop_member *member);

static inline bool stop_gate_requested(struct stop_gate *gate)
{
	return atomic_load(&gate->requested);
}

/* The member's own thread, outside the guest with its state final: wait while stops last. */
void stop_gate_park(struct stop_member *member);

/* Any thread: returns when every member is parked; pair with stop_gate_resume(). */
void stop_gate_stop(struct stop_gate *gate);
void stop_gate_resume(struct stop_gate *gate);

/* The same, but false at once if another thread owns the gate. */
bool stop_gate_try_stop(struct stop_gate *gate);

/* Whether the calling thread owns the gate. */
bool stop_gate_is_mine(struct stop_gate *gate);

#endif
