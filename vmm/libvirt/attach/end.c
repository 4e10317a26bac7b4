/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of sonde attach: what is undone, and what is left to the watchdog. */
#include <errno.h>
#include "introspect/guest/memory.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/libvirt/recovery/places.h"

enum { EVENT_MS = 1000 };

/* The event may come a little later than libvirt's answer about the state. */
const char *attach_why_gone(struct attach *a)
{
	const char *why = libvirt_events_wait(&a->events, EVENT_MS);

	return why ? why : "the domain ended";
}

/* Check in the domain itself, whatever the operations have returned. */
static int check_undone(struct attach *a, struct error *err)
{
	struct guest *guest = libvirt_guest(a->guest);
	size_t pending = 0;
	int ret = libvirt_journal_check_running(&a->journal, err);

	if (!ret)
		ret = guest_hold_to_read(guest, err);
	if (!ret)
		ret = guest_release(
			guest, libvirt_journal_pending(&a->journal, guest, &pending, err), err);
	if (!ret)
		ret = libvirt_guest_check_breaks(a->guest, err);
	if (!ret)
		ret = libvirt_guest_check_left(a->guest, err);
	if (!ret && pending)
		ret = error_set(
			err, EIO, "places in the guest that are not restored: %zu%s", pending,
			guest->control->is_stopped(guest) ? "; the domain is paused: resume it"
							  : "");
	return ret;
}

/* The domain has ended, and may have been started again: there is nothing to undo. */
static bool is_gone(struct attach *a)
{
	enum libvirt_run_state state;

	if (libvirt_process_ended(&a->domain.qemu))
		return true;
	return !libvirt_domain_state(&a->domain, &state, NULL) && state == LIBVIRT_GONE;
}

static void end_trace(struct attach *a, bool over)
{
	const char *why = a->why;

	if (!why && a->disconnected)
		why = "the connection to libvirt was lost";
	recorder_end(a->recorder, over ? RECORDER_GUEST_OVER : RECORDER_GUEST_RUNS, why);
	libvirt_guest_expose(a->guest, false);
	libvirt_guest_trap_counts(a->guest, &a->traps, NULL);
}

static void end_tracing(struct attach *a, bool reset, bool gone)
{
	if (gone && !a->why)
		a->why = attach_why_gone(a);
	/* the gdbstub is still there without libvirt */
	if (a->disconnected && !gone && a->options->recorder.mode == RECORDER_TRAP)
		libvirt_guest_move(a->guest);
	a->saved_breaks = libvirt_events_kept(&a->events) && libvirt_guest_holds_breaks(a->guest);
	end_trace(a, gone || reset || libvirt_guest_moves(a->guest));
}

static int leave(struct attach *a, struct error *err)
{
	int ret = check_undone(a, err);

	return ret ? ret : libvirt_guest_unplug(a->guest, err);
}

/* After a reset, patched bytes may be left in memory that the next guest overwrites. The old
 * guest's state is gone, so the watchdog does that. */
static int undo(struct attach *a, struct error *err)
{
	const bool reset = libvirt_events_reset(&a->events), gone = a->begun && is_gone(a);

	if (a->begun)
		end_tracing(a, reset, gone);
	if (a->journal.fd < 0 || gone || is_gone(a))
		return 0;
	if (reset) {
		libvirt_journal_reset(&a->journal, NULL);
		return error_set(err, ESTALE, "the domain was reset while it was traced");
	}
	return a->guest ? leave(a, err) : 0;
}

int attach_end(struct attach *a, struct error *err)
{
	struct error why = {0};
	int ret = undo(a, &why);

	/* its threads may write to the journal */
	libvirt_guest_destroy(a->guest);
	a->guest = NULL;
	if (!ret)
		libvirt_journal_remove(&a->journal);
	else
		libvirt_journal_close(&a->journal); /* the watchdog's now */
	libvirt_events_stop(&a->events);
	libvirt_domain_close(&a->domain);
	if (libvirt_watchdog_end(&a->watchdog, !ret) || !ret)
		return 0;
	if (err)
		*err = why;
	error_prefix(err, "run 'sonde recover%s%s %s': ", a->options->uri ? " -c " : "",
		     a->options->uri ? a->options->uri : "", a->options->domain);
	return -why.code;
}

void attach_close(struct attach *a)
{
	recorder_destroy(a->recorder);
	a->recorder = NULL;
}
