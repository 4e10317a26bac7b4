/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_GUEST_H
#define SONDE_VMM_LIBVIRT_BACKEND_GUEST_H

#include <stdbool.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/journal/journal.h"

/*
 * `struct guest` (introspect/guest/guest.h) for a running libvirt domain. It is stopped through
 * QEMU's monitor; registers are read, and memory written, through the gdbstub, which exists only
 * while it is stopped; RAM is read without QEMU's help where that can be. It has traps if it is
 * told so: breakpoints of the gdbstub, which then stays open (GUEST_CAP_BREAK; one handler at a
 * time).
 *
 * One thread at a time stops it; regions, clock and is_stopped are for any.
 */
struct libvirt_guest;

enum { LIBVIRT_MAX_VCPUS = 64 };

/*
 * `domain` stays the caller's. Everything written to the guest's RAM is noted in `journal` first;
 * NULL: nothing needs noting. `with_shmem` counts a plugged device among the RAM.
 */
int libvirt_guest_create(struct libvirt_domain *domain, struct libvirt_journal *journal,
			 bool with_shmem, struct libvirt_guest **out, struct error *err);
/* Plug in scratch memory, which takes some tenths of a second of the guest's time. It must run.
 * -EACCES if its other memory cannot be read without stopping it. What an error has left goes with
 * libvirt_guest_unplug(). */
int libvirt_guest_plug(struct libvirt_guest *guest, struct error *err);
/* Take it out again, if it was plugged. The guest must run. Errors as libvirt_shmem_unplug(). */
int libvirt_guest_unplug(struct libvirt_guest *guest, struct error *err);
/* Does not unplug. NULL-safe. */
void libvirt_guest_destroy(struct libvirt_guest *guest);

/* For a guest without scratch memory: have breakpoints. Once. */
int libvirt_guest_use_traps(struct libvirt_guest *guest, struct error *err);
struct libvirt_trap_counts {
	uint64_t hits;
	uint64_t held_ns; /* the guest stood still for so long while they were handled */
	uint64_t loans;   /* how often a vCPU was lent the kernel's page tables */
};
/* -errno, with the counts, if breakpoints are not served any more: the guest may stand still. */
int libvirt_guest_trap_counts(struct libvirt_guest *guest, struct libvirt_trap_counts *out,
			      struct error *err);
/* Its memory is being written elsewhere: breakpoints are taken out for good. */
void libvirt_guest_move(struct libvirt_guest *guest);
/* Whether that was said. */
bool libvirt_guest_moves(const struct libvirt_guest *guest);
/* -EIO if there are still some of ours. */
int libvirt_guest_check_breaks(struct libvirt_guest *guest, struct error *err);
/* Whether they were in its memory when it was last heard of. */
bool libvirt_guest_holds_breaks(struct libvirt_guest *guest);
/* While it is stopped: give a vCPU back what a tracer has lent it other page tables for. */
int libvirt_guest_end_loan(struct libvirt_guest *guest, const struct journal_loan *loan,
			   struct error *err);
/* While it is stopped: whatever breakpoints a tracer has left. */
int libvirt_guest_forget_breaks(struct libvirt_guest *guest, struct error *err);

struct guest *libvirt_guest(struct libvirt_guest *guest);
/* Reading its memory stops it: best stop it around many reads. */
bool libvirt_guest_is_slow(const struct libvirt_guest *guest);
/* How many of its vCPUs are there; guest->nr_vcpus counts the slots that they can be plugged into,
 * as one may come at any time. */
unsigned int libvirt_guest_present_vcpus(const struct libvirt_guest *guest);
/* How its memory is read, and why so. */
const char *libvirt_guest_memory_text(const struct libvirt_guest *guest);

/* While it is stopped: that was a tracer that died, and the next resume lets it run. */
void libvirt_guest_adopt_stop(struct libvirt_guest *guest);

#endif
