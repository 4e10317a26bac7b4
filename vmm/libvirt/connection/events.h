/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_EVENTS_H
#define SONDE_VMM_LIBVIRT_CONNECTION_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include "vmm/libvirt/connection/domain.h"

/*
 * libvirt's events of a traced domain: they say when tracing has to end because the guest is gone.
 * A thread runs libvirt's event loop.
 */
struct libvirt_events {
	const struct libvirt_api *api;
	struct libvirt_domain *domain; /* NULL: none is watched */
	pthread_t thread;
	bool running;
	_Atomic bool quit;
	int timer;
	int lifecycle, reboot, iteration; /* callback ids */
	_Atomic(const char *) why;        /* why tracing has to end; NULL: it has not */
	_Atomic bool reset;               /* the domain goes on with another guest */
	_Atomic bool kept;                /* the domain has ended, its memory was saved or moved */
	int moved; /* eventfd: QEMU writes the guest's memory elsewhere, for a migration, a save or
		    * a snapshot */
};

/*
 * Start the loop, of which a process has at most one at a time. It serves connections that are
 * opened afterwards, and notices when libvirtd hangs. A process
 * that registers a loop has to run it: libvirtd closes connections that do not answer.
 */
int libvirt_events_start(struct libvirt_events *events, struct error *err);
/* Watch a domain, which has to stay open until libvirt_events_stop(). */
int libvirt_events_watch(struct libvirt_events *events, struct libvirt_domain *domain,
			 struct error *err);
/* Events that were zeroed and never started may be stopped, too. */
void libvirt_events_stop(struct libvirt_events *events);

/* Why tracing has to end, as "the domain was shut down"; NULL: it has not. From any thread. */
const char *libvirt_events_why(const struct libvirt_events *events);
/* The same, after waiting up to `ms` for an event. */
const char *libvirt_events_wait(const struct libvirt_events *events, unsigned int ms);
/* Whether the domain was reset: it still runs, the traced guest does not. */
bool libvirt_events_reset(const struct libvirt_events *events);
/* Whether the domain was saved or migrated: its memory will be used again. */
bool libvirt_events_kept(const struct libvirt_events *events);

#endif
