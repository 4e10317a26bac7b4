/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_MONITOR_H
#define SONDE_VMM_MONITOR_MONITOR_H

#include <jansson.h>
#include "formats/base/error.h"
#include "vmm/monitor/verb.h"

/*
 * The monitor: a socket that speaks the QEMU Machine Protocol (QEMU, docs/interop/qmp-spec.rst)
 * with several clients at once, each with a negotiation of its own. Main thread only.
 */
struct monitor;
struct event_loop;

enum { MONITOR_MAX_CLIENTS = 8 };

/*
 * Listen on `path` (see monitor_socket_open() for the errors and the umask), with the verbs of
 * verbs-*.c. `loop` and `target` must outlive the monitor.
 */
int monitor_create(struct event_loop *loop, const char *path, const struct monitor_target *target,
		   struct monitor **out, struct error *err);

/* Sends what can be sent at once, disconnects all and removes the socket. NULL-safe. */
void monitor_destroy(struct monitor *monitor);

/* The guest, or what traces it, is about to go: verbs that are still at work may not use them any
 * more, and fail. Waits for a moment at most. NULL-safe. */
void monitor_end_jobs(struct monitor *monitor);

/* Add more verbs (monitor_verbs_add()). The table is per monitor: there is no global state. */
int monitor_register(struct monitor *monitor, const struct monitor_verb *verbs, struct error *err);

/* Send an event to every negotiated client. `data` (an object) is taken over and may be NULL.
 * NULL-safe. */
void monitor_event(struct monitor *monitor, const char *name, json_t *data);

#endif
