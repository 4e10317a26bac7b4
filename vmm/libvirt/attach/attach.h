/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_ATTACH_ATTACH_H
#define SONDE_VMM_LIBVIRT_ATTACH_ATTACH_H

#include <stdio.h>
#include "vmm/libvirt/attach/options.h"
#include "vmm/libvirt/backend/guest.h"
#include "vmm/libvirt/backend/kernel.h"
#include "vmm/libvirt/connection/events.h"
#include "vmm/libvirt/recovery/watchdog.h"
#include "vmm/recorder/recorder.h"

/* Why the event loop has ended. */
enum attach_reason {
	ATTACH_ASKED = 1, /* by a limit, a signal, or the monitor */
	ATTACH_DOMAIN,    /* the domain has ended, or is another guest; attach->why */
	ATTACH_LIBVIRT,   /* libvirt or the gdbstub does not answer any more; attach->lost */
};

/* A domain, its recorder, and the watchdog that restores the domain if the tracer dies. */
struct attach {
	const struct attach_options *options;
	struct event_loop *loop;
	struct libvirt_watchdog watchdog;
	struct libvirt_domain domain;
	struct libvirt_events events;
	struct libvirt_journal journal;
	struct libvirt_guest *guest;
	struct recorder *recorder;
	struct attach_kernel kernel;
	bool begun; /* tracing */

	enum attach_reason reason;
	const char *why;   /* what happened to the domain: "the domain was reset"; NULL: nothing */
	struct error lost; /* ATTACH_LIBVIRT */
	bool disconnected; /* libvirt does not answer */
	bool panicked;     /* the guest has, and this was said */
	uint64_t checks, checks_without_traps;

	bool saved_breaks; /* the domain was saved or migrated with breakpoints in it */
	struct libvirt_trap_counts traps; /* of a trace by breakpoints, at its end */
};

/*
 * Find the domain, its memory and the kernel in it; with --dry-run nothing more than that, and
 * nothing is changed. All errors are one line for the user; attach_end() and attach_close() are due
 * in any case.
 */
int attach_open(struct attach *attach, const struct attach_options *options,
		struct event_loop *loop, struct error *err);

/* Trace until something ends it: sets attach->reason. -errno if tracing could not begin. */
int attach_run(struct attach *attach, struct error *err);

/*
 * End tracing and undo everything. -errno if the domain is not as it was and the watchdog could not
 * change that either.
 */
int attach_end(struct attach *attach, struct error *err);
void attach_close(struct attach *attach);

/* Why the domain is not there any more, in words; waits a moment for libvirt's event. */
const char *attach_why_gone(struct attach *attach);

/* "virsh -c URI COMMAND DOMAIN", for messages. */
struct attach_hint {
	char text[320];
};
struct attach_hint attach_virsh(const struct attach *attach, const char *command);

/* Set *err to why the guest is not traced, and to what may be tried instead: ENOTSUP in exitless
 * mode means that it has something that cannot be traced without exits. Returns -errno. */
int attach_refuse(const struct attach *attach, const struct error *why, struct error *err);

/* For -v: the domain, how its memory is read, and its kernel. */
void attach_print(struct attach *attach, FILE *to);

/* For --dry-run: these, and all that would be changed. -errno if it could not be. */
int attach_print_plan(struct attach *attach, FILE *to, struct error *err);

#endif
