/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_PERFETTO_SLICES_H
#define SONDE_FORMATS_PERFETTO_SLICES_H

#include "formats/event/event.h"
#include "formats/perfetto/threads.h"

/*
 * Calls as slices of Perfetto, which ends the innermost slice of a track, leaves out those that are
 * more than 512 deep, and shows one without an end up to the end of the trace. The calls of a task
 * that an instance has recorded are on a track of their own, where they nest; times on it never go
 * back.
 *
 * A call whose return is not in the trace ends when the trace shows that it must have, and that is
 * said. One that is known to have no return is an instant, as is a return without its call.
 */
enum slice_type { SLICE_BEGIN, SLICE_END };

struct slice_step {
	enum slice_type type;
	size_t instance;
	uint32_t tid;      /* of the task; 0: the idle one of this vCPU: */
	unsigned int vcpu; /* where the call began */
	int64_t ns;
	uint64_t ip;    /* of a begin: the function */
	bool is_first;  /* on its track */
	bool is_unseen; /* an end: not by a return, so that the event at hand is not of this call */
};

struct slices;

/* Steps go to `step`. `stack_bytes`: of each stack (sidecar_stack_bytes()). NULL without memory. */
struct slices *slices_create(const struct trace_instance *instances, uint64_t stack_bytes,
			     void (*step)(void *arg, const struct slice_step *step), void *arg);
/* NULL-safe. */
void slices_destroy(struct slices *slices);

/*
 * The next event, of one of the instances, and its thread, NULL if it is not known. *taken: it
 * begins or ends a slice, else it is an instant. -ENOMEM.
 */
int slices_add(struct slices *slices, const struct event *event, const struct thread_track *thread,
	       bool *taken);

#endif
