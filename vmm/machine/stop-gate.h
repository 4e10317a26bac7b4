/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MACHINE_STOP_GATE_H
#define SONDE_VMM_MACHINE_STOP_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The primitive for "run this with every vCPU stopped". Its members are the vCPU threads: before
 * each entry to the guest they poll stop_gate_requested(), and if it is set, they wait at the gate.
 * The thread that stops them owns the gate until it resumes them. Stops of the owner nest; other
 * threads that want to stop wait for their turn. A member that waits for its turn, or owns the
 * gate, counts as stopped.
 */
struct stop_member {
	struct stop_gate *gate;
	bool parked; /* under the gate's lock */
	/* Make the member's thread leave the guest, so that it polls stop_gate_requested(). */
	void (*kick)(void *arg);
	void *arg;
};

enum { STOP_GATE_MAX_MEMBERS = 64 };

struct stop_gate {
	pthread_mutex_t lock;
	pthread_cond_t parked;  /* a member has parked, for which the owner may wait */
	pthread_cond_t resumed; /* the gate has no owner any more */
	atomic_bool requested;
	pthread_t owner;
	unsigned int depth; /* 0 = no owner */
	struct stop_member *members[STOP_GATE_MAX_MEMBERS];
	size_t nr_members;
};

/* An open gate without members. Deinit it when no member's thread runs any more. */
void stop_gate_init(struct stop_gate *gate);
void stop_gate_deinit(struct stop_gate *gate);

/* Before the member's thread runs: it counts as stopped until stop_gate_enter(). At most
 * STOP_GATE_MAX_MEMBERS times. */
void stop_gate_add(struct stop_gate *gate, struct stop_member *member);

/* The member's own thread: at its start, which waits while the gate is owned, and at its end. */
void stop_gate_enter(struct stop_member *member);
void stop_gate_leave(struct stop_member *member);

static inline bool stop_gate_requested(struct stop_gate *gate)
{
	return atomic_load(&gate->requested);
}

/* The member's own thread, outside the guest, its registers final: wait while the gate is owned. */
void stop_gate_park(struct stop_member *member);

/* Any thread: returns when every member is parked. Each stop needs a stop_gate_resume(). */
void stop_gate_stop(struct stop_gate *gate);
void stop_gate_resume(struct stop_gate *gate);

/* As stop_gate_stop(), but returns false at once if another thread owns the gate. */
bool stop_gate_try_stop(struct stop_gate *gate);

/* Whether the calling thread owns the gate. */
bool stop_gate_is_mine(struct stop_gate *gate);

#endif
