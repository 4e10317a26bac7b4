/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Traps of a domain: creation, parking, and the calls of other threads. serve.c serves hits. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"
#include "vmm/libvirt/backend/internal.h"
#include "vmm/libvirt/connection/monitor.h"

void libvirt_traps_changed(struct libvirt_traps *t)
{
	atomic_store(&t->exposed, t->nr_armed && !t->parked);
}

void libvirt_traps_note_parked(struct libvirt_guest *g)
{
	if (!g->traps.parked)
		g->traps.parked_ns = clock_monotonic_ns();
	g->traps.parked = true;
	libvirt_traps_changed(&g->traps);
}

/* If this fails the thread is awake. */
static void wake(struct libvirt_traps *t)
{
	eventfd_write(t->wake, 1);
}

void libvirt_traps_fail(struct libvirt_traps *t, const struct error *why)
{
	if (!t->failure.code)
		t->failure = *why;
}

/*
 * The handler gets the time in which hits were missed. While no vCPU's page tables map the kernel,
 * as in the first instructions of an interrupt in user mode, they stay parked, and the thread tries
 * again. Another error is libvirt_traps_fail()'s.
 */
static void unpark(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;
	const uint64_t since = t->parked_ns;
	struct guest_trap gap = {.gap_ns = clock_monotonic_ns() - since};
	struct error err;
	int ret = libvirt_breaks_unpark(g, &err);

	if (ret == -EAGAIN && t->parked)
		t->parked_ns = since;
	else if (ret)
		libvirt_traps_fail(t, &err);
	else if (t->fn)
		t->fn(t->arg, &gap);
}

/* --- stop and resume ------------------------------------------------------------------------- */

int libvirt_traps_interrupt(struct libvirt_guest *g, enum libvirt_status status, struct error *err)
{
	struct rsp_stop stop;
	int ret = 0;

	if (status == LIBVIRT_STATUS_RUNNING)
		ret = rsp_interrupt(&g->stub.rsp, err);
	if (!ret && status != LIBVIRT_STATUS_PAUSED)
		ret = rsp_await_stop(&g->stub.rsp, &stop, err);
	if (!ret)
		g->traps.running = false;
	return ret;
}

/* Nothing serves breakpoints any more: the guest must not meet one. Or the administrator has
 * suspended it, and may save its memory: the stop has taken the gdbstub's notice of that. */
static bool must_go(const struct libvirt_traps *t, bool will_run)
{
	return t->failure.code || (!will_run && t->in_memory && !t->parked);
}

static int keep_out(struct libvirt_guest *g, struct error *err)
{
	int ret = libvirt_guest_open_stub(g, err);

	return ret || g->traps.parked ? ret : libvirt_breaks_park(g, err);
}

int libvirt_traps_resume(struct libvirt_guest *g, bool will_run, struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	int ret = will_run ? libvirt_guest_open_stub(g, err) : 0;

	if (!ret && will_run && t->parked && !t->failure.code)
		unpark(g);
	if (must_go(t, will_run))
		ret = keep_out(g, err);
	/* a loan of unpark() or of a hit's handler, which the gdbstub did not let end at once */
	if (!ret && will_run)
		ret = libvirt_breaks_end_loan(g, err);
	if (!ret && will_run)
		ret = rsp_continue(&g->stub.rsp, err);
	t->running = !ret;
	wake(t);
	return ret;
}

int libvirt_guest_set_trap_handler(struct guest *guest, guest_trap_fn *fn, void *arg,
				   struct error *err)
{
	struct libvirt_guest *g = libvirt_from_guest(guest);

	(void)err;
	pthread_mutex_lock(&g->stopper);
	g->traps.fn = fn;
	g->traps.arg = arg;
	pthread_mutex_unlock(&g->stopper);
	return 0;
}

/* --- life ------------------------------------------------------------------------------------ */

void libvirt_traps_init(struct libvirt_traps *t)
{
	t->wake = t->beater_wake = t->asker.answered = -1;
	pthread_mutex_init(&t->beat_lock, NULL);
}

int libvirt_guest_use_traps(struct libvirt_guest *g, uint64_t text, uint64_t text_gpa,
			    struct error *err)
{
	struct libvirt_traps *t = &g->traps;
	/* with KVM breakpoints are bytes in the guest's memory */
	int ret = libvirt_domain_has_kvm(g->domain, &t->in_memory, err);

	if (ret)
		return ret;
	t->text = (struct libvirt_break){.gva = text, .gpa = text_gpa};
	t->breaks = calloc(LIBVIRT_MAX_BREAKS, sizeof(*t->breaks));
	t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!t->breaks || t->wake < 0)
		return error_set(err, ENOMEM, "out of memory");
	ret = libvirt_asker_start(g, err);
	if (ret)
		return ret;
	if (thread_start(&t->thread, "sonde-traps", libvirt_traps_serve, g))
		return error_set(err, EAGAIN, "cannot start the thread that serves breakpoints");
	t->enabled = true;
	g->guest.caps |= GUEST_CAP_BREAK;
	return 0;
}

void libvirt_traps_deinit(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;

	if (t->enabled) {
		atomic_store(&t->ending, true);
		wake(t);
		pthread_join(t->thread, NULL);
	}
	libvirt_asker_stop(g);
	libvirt_beat_stop(g);
	if (t->wake >= 0)
		close(t->wake);
	free(t->breaks);
}

int libvirt_guest_trap_counts(struct libvirt_guest *g, struct libvirt_trap_counts *out,
			      struct error *err)
{
	int ret;

	pthread_mutex_lock(&g->stopper);
	*out = g->traps.counts;
	ret = -g->traps.failure.code;
	if (ret && err)
		*err = g->traps.failure;
	pthread_mutex_unlock(&g->stopper);
	return ret;
}

void libvirt_guest_move(struct libvirt_guest *g)
{
	enum { TRIES = 100 }; /* each may meet another hit, which is served */

	pthread_mutex_lock(&g->stopper);
	atomic_store(&g->traps.moving, true);
	for (int i = 0; i < TRIES && g->traps.running && !g->traps.parked; i++)
		libvirt_traps_poll(g);
	pthread_mutex_unlock(&g->stopper);
}

bool libvirt_guest_moves(const struct libvirt_guest *g)
{
	return atomic_load(&g->traps.moving);
}

int libvirt_guest_check_breaks(struct libvirt_guest *g, struct error *err)
{
	size_t n;

	pthread_mutex_lock(&g->stopper);
	n = g->traps.parked ? 0 : g->traps.nr_armed;
	pthread_mutex_unlock(&g->stopper);
	return n ? error_set(err, EIO, "%zu breakpoints in the guest could not be removed", n) : 0;
}

bool libvirt_guest_holds_breaks(struct libvirt_guest *g)
{
	bool holds;

	pthread_mutex_lock(&g->stopper);
	holds = g->traps.in_memory && g->traps.nr_armed && !g->traps.parked;
	pthread_mutex_unlock(&g->stopper);
	return holds;
}

int libvirt_guest_forget_breaks(struct libvirt_guest *g, struct error *err)
{
	int ret = libvirt_guest_open_stub(g, err);

	return ret ? ret : rsp_forget_breakpoints(&g->stub.rsp, g->guest.nr_vcpus, err);
}
