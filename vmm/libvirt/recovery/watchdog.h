/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_RECOVERY_WATCHDOG_H
#define SONDE_VMM_LIBVIRT_RECOVERY_WATCHDOG_H

#include <stdbool.h>
#include <sys/types.h>
#include "formats/base/error.h"

/*
 * A process that outlives the tracer: when that ends in whatever way without having said that all
 * is undone, the process recovers the domain (libvirt-recover.h). It holds the reading end of a
 * pipe whose writing end nobody else has.
 */
struct libvirt_watchdog {
	int fd; /* -1: none */
	pid_t pid;
};

/* To be called before any thread is started and before libvirt is used. */
int libvirt_watchdog_start(const char *uri, struct libvirt_watchdog *out, struct error *err);
/* From now on there may be something to undo in the domain with this uuid. */
int libvirt_watchdog_arm(struct libvirt_watchdog *watchdog, const char *uuid, struct error *err);
/* The end; `undone`: there is nothing left to do. Waits for it; false if it failed to recover. */
bool libvirt_watchdog_end(struct libvirt_watchdog *watchdog, bool undone);

#endif
