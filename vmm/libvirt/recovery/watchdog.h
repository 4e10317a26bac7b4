/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_WATCHDOG_H
#define SONDE_VMM_LIBVIRT_RECOVERY_WATCHDOG_H

#include <stdbool.h>
#include <sys/types.h>
#include "formats/base/error.h"

/*
 * A process that outlives the tracer. If the tracer ends in any way without having reported that
 * all is undone, the watchdog recovers the domain (recover.h). It kills a tracer that is stopped or
 * hangs while the domain may stand at a breakpoint. It holds the reading end of a pipe
 * whose writing end only the tracer has.
 */
struct libvirt_watchdog {
	int fd; /* -1: none */
	pid_t pid;
};

/* Call it before any thread is started and before libvirt is used. */
int libvirt_watchdog_start(const char *uri, struct libvirt_watchdog *out, struct error *err);
/* From now on there may be something to undo in the domain with this uuid. -EPIPE: the watchdog has
 * died; the domain must not be changed. */
int libvirt_watchdog_arm(struct libvirt_watchdog *watchdog, const char *uuid, struct error *err);
/* From any thread: with `exposed`, the domain may stand at a breakpoint and waits for this process,
 * which is killed if it does not beat again within 10 s, nor in 2 s in which the watchdog runs
 * behind that; without, it may take its time. */
void libvirt_watchdog_beat(struct libvirt_watchdog *watchdog, bool exposed);
/* End it, and wait for it. `undone`: nothing is left to undo. False: its recovery failed. */
bool libvirt_watchdog_end(struct libvirt_watchdog *watchdog, bool undone);

#endif
