/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_JOB_H
#define SONDE_VMM_MONITOR_JOB_H

#include <stdbool.h>
#include "vmm/monitor/verb.h"

/*
 * A verb at work on a thread of its own, since it may take long: the guest's consoles and the other
 * clients do not wait for it. Its thread may hang in a write to a disk that hangs, so the main
 * thread does not wait for it. Instead it asks before each time that it touches the guest.
 */
struct monitor_job;
struct event_loop;

/* On the main thread, when the verb has returned. Ends with monitor_job_abandon(). */
typedef void monitor_job_fn(void *arg);

/* Run the verb. What `call` points at may be gone when the job is abandoned, and not before; its
 * args are copied. Main thread. -ENOMEM, -EAGAIN: no thread. */
int monitor_job_start(struct event_loop *loop, const struct monitor_verb *verb,
		      const struct monitor_call *call, monitor_job_fn *fn, void *arg,
		      struct monitor_job **out, struct error *err);

/* What the verb has returned, with *err and *result (a new reference or NULL). */
int monitor_job_result(struct monitor_job *job, struct error *err, json_t **result);

/* From now on the verb gets no leave to touch anything. Waits for it to end what it has leave for.
 * Frees the job, at once or when its thread ends. NULL-safe; main thread. */
void monitor_job_abandon(struct monitor_job *job);

/*
 * For verbs: leave to use the call's target, and to wait for nothing else meanwhile, until
 * monitor_call_done(). -ECANCELED: the job was abandoned. Always granted on the main thread.
 */
int monitor_call_use(const struct monitor_call *call, struct error *err);
void monitor_call_done(const struct monitor_call *call);

/*
 * For verbs that have no such leave: let the main thread call fn, and return what it returns. What
 * stops the guest has to be done so: after the monitor's `stop` only the main thread can, since it
 * holds the guest paused, and others would wait until `cont`. -ECANCELED as above; `fn` may not
 * have been called then.
 */
typedef int monitor_errand_fn(void *arg, struct error *err);
int monitor_call_on_main(const struct monitor_call *call, monitor_errand_fn *fn, void *arg,
			 struct error *err);

#endif
