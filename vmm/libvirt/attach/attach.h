/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_ATTACH_ATTACH_H
#define SONDE_VMM_LIBVIRT_ATTACH_ATTACH_H

#include <stdio.h>
#include "vmm/libvirt/backend/kernel.h"
#include "vmm/libvirt/attach/options.h"
#include "vmm/libvirt/connection/events.h"
#include "vmm/libvirt/backend/guest.h"
#include "vmm/libvirt/recovery/watchdog.h"
#include "vmm/recorder/recorder.h"

/* A domain, what traces it, and who cleans up behind it. */
struct attach {
	const struct attach_options *options;
	struct libvirt_watchdog watchdog;
	struct libvirt_domain domain;
	struct libvirt_events events;
	struct libvirt_journal journal;
	struct libvirt_guest *guest;
	struct run_trace *trace;
	struct attach_kernel kernel;
	bool begun;        /* tracing */
	const char *why;   /* what became of the domain, as "the domain was reset"; NULL: nothing */
	bool saved_breaks; /* it was saved or migrated with breakpoints in it */
	struct libvirt_trap_counts traps; /* of a trace by breakpoints, at its end */
};

/*
 * Find the domain, its memory and the kernel in it; with --dry-run nothing more than that, and
 * nothing is changed. All errors are one line for the user; attach_close() is due in any case.
 */
int attach_open(struct attach *attach, const struct attach_options *options, struct error *err);
/* Give it memory and start tracing. */
int attach_begin(struct attach *attach, struct error *err);

/*
 * Sets attach->why if tracing should end now, though its user did not say so. -errno if libvirt
 * cannot be asked any more.
 */
int attach_look(struct attach *attach, struct error *err);

/*
 * End tracing and undo everything. -errno if the domain is not as it was and the watchdog could not
 * change that either.
 */
int attach_end(struct attach *attach, struct error *err);
void attach_close(struct attach *attach);

/* Around many reads of a guest that is stopped for each of them; others run on. `rc` goes before an
 * error of the resume. */
int attach_hold(struct attach *attach, struct error *err);
int attach_release(struct attach *attach, int rc, struct error *err);

/* For -v: the domain, how its memory is read, and its kernel. */
void attach_print(struct attach *attach, FILE *to);

/* For --dry-run: these, and all that would be changed. -errno if it could not be. */
int attach_print_plan(struct attach *attach, FILE *to, struct error *err);

#endif
