/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shows another process that this one still serves the guest. It is a thread of its own, because
 * all others may wait for libvirt, which is bounded: by its keepalive, and by how long libvirt
 * waits for a job of another user.
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"
#include "vmm/libvirt/backend/internal.h"

enum {
	BEAT_MS = 1000,
	LONGEST_STOP_S = 60, /* longer than any wait for libvirt */
};

static bool takes_too_long(struct libvirt_guest *g)
{
	const uint64_t longest = LONGEST_STOP_S * UINT64_C(1000000000);
	uint64_t since = atomic_load(&g->stopped_ns);

	return since && clock_monotonic_ns() - since > longest;
}

bool libvirt_beat_is_exposed(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;

	return atomic_load(&t->exposed) || atomic_load(&t->patched) || atomic_load(&t->stopping) ||
	       atomic_load(&g->stopped_ns);
}

/* The lock: what the last beat says is so. */
void libvirt_beat_now(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;
	bool exposed;

	if (!t->beat)
		return;
	pthread_mutex_lock(&t->beat_lock);
	exposed = libvirt_beat_is_exposed(g);
	if (!exposed || !takes_too_long(g))
		t->beat(t->beat_arg, exposed);
	pthread_mutex_unlock(&t->beat_lock);
}

static void *beat(void *arg)
{
	struct libvirt_guest *g = arg;
	struct pollfd poll_fd = {.fd = g->traps.beater_wake, .events = POLLIN};

	while (poll(&poll_fd, 1, BEAT_MS) <= 0)
		libvirt_beat_now(g);
	return NULL;
}

int libvirt_guest_beat(struct libvirt_guest *g, libvirt_beat_fn *fn, void *arg, struct error *err)
{
	struct libvirt_traps *t = &g->traps;

	t->beat = fn;
	t->beat_arg = arg;

	t->beater_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->beater_wake < 0)
		return error_set(err, errno, "no eventfd");
	if (!thread_start(&t->beater, "sonde-beat", beat, g))
		return 0;
	close(t->beater_wake);
	t->beater_wake = -1;
	return error_set(err, EAGAIN, "cannot start a thread");
}

void libvirt_guest_expose(struct libvirt_guest *g, bool exposed)
{
	atomic_store(&g->traps.patched, exposed);
	libvirt_beat_now(g);
}

void libvirt_beat_stop(struct libvirt_guest *g)
{
	struct libvirt_traps *t = &g->traps;

	if (t->beater_wake < 0)
		return;
	eventfd_write(t->beater_wake, 1);
	pthread_join(t->beater, NULL);
	/* its last beat may have been an exposed one: what is left to do may take its time */
	if (!libvirt_beat_is_exposed(g))
		libvirt_beat_now(g);
	close(t->beater_wake);
	t->beater_wake = -1;
}
