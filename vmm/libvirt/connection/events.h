/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_CONNECTION_EVENTS_H
#define SONDE_VMM_LIBVIRT_CONNECTION_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include "vmm/libvirt/connection/domain.h"

/*
 * Why the tracing of a domain has to end, from the events that libvirt tells of it: the guest that
 * was traced is not there any more. A thread runs libvirt's event loop.
 */
struct libvirt_events {
	const struct libvirt_api *api;
	struct libvirt_domain *domain; /* NULL: not watched */
	pthread_t thread;
	bool running;
	_Atomic bool quit;
	int timer;
	int lifecycle, reboot, iteration; /* callbacks */
	_Atomic(const char *) why;        /* NULL: go on */
	_Atomic bool reset;               /* the domain runs on, as another guest */
	_Atomic bool kept;                /* it has ended, its memory lives on */
	int moved; /* eventfd, -1 before the start: the memory is being written elsewhere, by a
		    * migration, or for a save or a snapshot */
};

/*
 * Start the loop, which only connections use that are opened afterwards. Once in a process, and not
 * in one whose loop would not run: libvirt closes connections that do not answer it.
 */
int libvirt_events_start(struct libvirt_events *events, struct error *err);
/* From now on events of this domain are seen; it stays the caller's until libvirt_events_stop(). */
int libvirt_events_watch(struct libvirt_events *events, struct libvirt_domain *domain,
			 struct error *err);
/* Also of what was zeroed and never started. */
void libvirt_events_stop(struct libvirt_events *events);

/* "the domain was shut down", or NULL. From any thread. */
const char *libvirt_events_why(const struct libvirt_events *events);
/* Likewise, after waiting for it up to `ms`. */
const char *libvirt_events_wait(const struct libvirt_events *events, unsigned int ms);
/* Whether that was a reset: the domain still exists, the guest in it does not. */
bool libvirt_events_reset(const struct libvirt_events *events);
/* Whether the domain was saved or migrated: what was in its memory is there when it goes on. */
bool libvirt_events_kept(const struct libvirt_events *events);

#endif
