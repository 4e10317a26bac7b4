/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_BACKEND_GUEST_H
#define SONDE_VMM_LIBVIRT_BACKEND_GUEST_H

#include <stdbool.h>
#include "introspect/guest/guest.h"
#include "vmm/libvirt/connection/domain.h"
#include "vmm/libvirt/journal/journal.h"

/*
 * `struct guest` (introspect/guest/guest.h) for a running libvirt domain. QEMU's monitor stops it.
 * The gdbstub, open only while it is stopped, reads registers and writes memory. RAM is read
 * without QEMU's help where possible. Traps are optional: they are breakpoints of the gdbstub,
 * which then stays open (GUEST_CAP_BREAK; one handler at a time).
 *
 * One thread at a time may stop it. regions, clock and is_stopped may be called from any thread.
 */
struct libvirt_guest;

enum { LIBVIRT_MAX_VCPUS = 64 };

/*
 * `domain` has to stay open. Every write to the guest's RAM is first written to `journal`, if that
 * is not NULL. `with_shmem`: a scratch memory device that is already plugged in counts as RAM.
 */
int libvirt_guest_create(struct libvirt_domain *domain, struct libvirt_journal *journal,
			 bool with_shmem, struct libvirt_guest **out, struct error *err);
/*
 * Plug in scratch memory. The guest must run; it takes some tenths of a second to accept the
 * device. After an error, libvirt_guest_unplug() is due, too. -EACCES: the guest's RAM cannot be
 * read without stopping it. Other errors as libvirt_shmem_plug().
 */
int libvirt_guest_plug(struct libvirt_guest *guest, struct error *err);
/* Unplug it, if it was plugged in. The guest must run. Errors as libvirt_shmem_unplug(). */
int libvirt_guest_unplug(struct libvirt_guest *guest, struct error *err);
/* Does not unplug. NULL-safe. */
void libvirt_guest_destroy(struct libvirt_guest *guest);

/*
 * Once: from now on `beat` is called each second, on a thread of its own. With `exposed`, while the
 * guest depends on this process: it is held stopped, may stop at a breakpoint, or ask before it
 * changes its own text (libvirt_guest_expose()). It is called so before that begins, too, by the
 * thread that begins it. It is not called while a stop takes suspiciously long. So if it is not
 * called for some seconds after it was with `exposed`, the guest may be frozen, or come to harm.
 * libvirt_guest_destroy() calls it a last time unless the guest still depends on this process.
 */
typedef void libvirt_beat_fn(void *arg, bool exposed);
int libvirt_guest_beat(struct libvirt_guest *guest, libvirt_beat_fn *beat, void *arg,
		       struct error *err);
/* The guest will be patched without breakpoints, or is no longer. Any thread. */
void libvirt_guest_expose(struct libvirt_guest *guest, bool exposed);

/* Enable breakpoints, once, for a guest without scratch memory. `text` is any place in the kernel's
 * text, at `text_gpa`: page tables that map it map the kernel. */
int libvirt_guest_use_traps(struct libvirt_guest *guest, uint64_t text, uint64_t text_gpa,
			    struct error *err);
struct libvirt_trap_counts {
	uint64_t hits;
	uint64_t held_ns; /* how long the guest was stopped for them */
	uint64_t loans;   /* how often a vCPU borrowed the kernel's page tables */
};
/* Sets *out in any case. -errno: breakpoints are no longer served, and the guest may be stopped at
 * one. */
int libvirt_guest_trap_counts(struct libvirt_guest *guest, struct libvirt_trap_counts *out,
			      struct error *err);
/* QEMU begins to write the guest's memory elsewhere, or libvirt does not answer: remove all
 * breakpoints for good, without a command to libvirt. */
void libvirt_guest_move(struct libvirt_guest *guest);
/* Whether libvirt_guest_move() was called. */
bool libvirt_guest_moves(const struct libvirt_guest *guest);
/* -EIO: breakpoints are still armed. */
int libvirt_guest_check_breaks(struct libvirt_guest *guest, struct error *err);
/* Ask QEMU at the end of a trace by breakpoints, or after a connection to the gdbstub was lost.
 * -EIO: the guest is still stopped, and not by its administrator. Other errors: a connection was
 * lost, and QEMU's state is not known. */
int libvirt_guest_check_left(struct libvirt_guest *guest, struct error *err);
/* Whether breakpoints were in the guest's memory at its last stop (KVM). */
bool libvirt_guest_holds_breaks(struct libvirt_guest *guest);
/* While it is stopped: open the gdbstub unless it is open. A connection that is lost is replaced;
 * armed breakpoints are parked then. It is closed when the guest is resumed without breakpoints. */
int libvirt_guest_open_stub(struct libvirt_guest *guest, struct error *err);
/* While it is stopped: restore the CR3 of a vCPU that a dead tracer has lent page tables to. */
int libvirt_guest_end_loan(struct libvirt_guest *guest, const struct journal_loan *loan,
			   struct error *err);
/* While it is stopped: remove the breakpoints that a dead tracer has left. */
int libvirt_guest_forget_breaks(struct libvirt_guest *guest, struct error *err);

struct guest *libvirt_guest(struct libvirt_guest *guest);
/* Whether each read of its memory stops it; then stop it once around many reads. */
bool libvirt_guest_is_slow(const struct libvirt_guest *guest);
/* The number of vCPUs when it was created. guest->nr_vcpus counts vCPU slots: a vCPU may be plugged
 * in at any time. */
unsigned int libvirt_guest_present_vcpus(const struct libvirt_guest *guest);
/* For users: how its memory is read, and why so. */
const char *libvirt_guest_memory_text(const struct libvirt_guest *guest);

/* While it is stopped: a dead tracer has stopped it, so the last resume has to let it run. */
void libvirt_guest_adopt_stop(struct libvirt_guest *guest);

#endif
