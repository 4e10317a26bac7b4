/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RUN_OWNER_H
#define SONDE_VMM_RUN_OWNER_H

#include "formats/base/error.h"
#include "vmm/monitor/verb.h"

/* A monitor with every verb there is, for one virtual machine of ours. Main thread only. */
struct monitor_vm;
struct monitor;
struct event_loop;
struct vm;

/*
 * Listen on `path` and tell clients of status changes (STOP, RESUME, GUEST_PANICKED, SHUTDOWN).
 * `trace` may be NULL: then the trace verbs say that tracing is not configured. `trace` and
 * `trace_arg` must live as long as the monitor. Errors as monitor_create(). Call it before
 * vm_start(): it changes the umask for a moment.
 */
int monitor_vm_create(const char *path, struct vm *vm, struct event_loop *loop,
		      const struct monitor_trace_ops *trace, void *trace_arg,
		      struct monitor_vm **out, struct error *err);

/*
 * Between vm_finish() and vm_destroy(): clients are told SHUTDOWN, with the reason, as the last
 * thing when a trace is complete, and the vm must not change its status any more, as it has no way
 * to forget a listener. NULL-safe.
 */
void monitor_vm_destroy(struct monitor_vm *monitor);

#endif
