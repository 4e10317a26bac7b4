/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the watchdog hears while a guest is served, and while it is held stopped for too long. */
#include <stdlib.h>
#include "formats/base/clock.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/backend/internal.h"

enum { BEATS_MS = 2500 /* two beats or more */, PATIENCE_MS = 10000, LONG_S = 61 };

static struct fake_qemu *qemu;
static struct libvirt_guest *g;
static _Atomic unsigned int exposed_beats, other_beats;
static atomic_bool ran; /* the domain did, at the first exposed beat */

static void on_beat(void *arg, bool exposed)
{
	(void)arg;
	if (exposed && !exposed_beats)
		ran = fake_qemu_runs(qemu);
	if (exposed)
		exposed_beats++;
	else
		other_beats++;
}

static bool await(_Atomic unsigned int *beats)
{
	exposed_beats = other_beats = 0;
	for (int i = 0; i < PATIENCE_MS && !*beats; i++)
		clock_wait_ms(1);
	return *beats;
}

/* As serve.c and breaks.c set it. */
static void arm(bool armed)
{
	pthread_mutex_lock(&g->stopper);
	g->traps.nr_armed = armed;
	libvirt_traps_changed(&g->traps);
	pthread_mutex_unlock(&g->stopper);
}

static void test_beats(void)
{
	ok(await(&other_beats) && !exposed_beats, "an untouched guest: the tracer lives");
	arm(true);
	ok(await(&exposed_beats), "with breakpoints: it serves them");
	arm(false);
	libvirt_guest_expose(g, true);
	await(&exposed_beats);
	ok(await(&exposed_beats) && !other_beats, "with patches: it serves the guest");
}

/* The tracer may be stopped, by SIGSTOP, right behind what makes the guest depend on it. */
static void test_at_once(void)
{
	struct guest *guest = libvirt_guest(g);

	await(&other_beats);
	exposed_beats = other_beats = 0;
	libvirt_guest_expose(g, true);
	ok(exposed_beats, "before the first patch it says that it serves the guest, at once");
	libvirt_guest_expose(g, false);
	await(&other_beats);
	exposed_beats = other_beats = 0;
	if (libvirt_guest_stop(guest, NULL))
		abort();
	ok(exposed_beats && ran && !fake_qemu_runs(qemu), "likewise before a stop");
	ok(await(&exposed_beats) && !other_beats, "and again while it is held");
	exposed_beats = other_beats = 0;
	libvirt_guest_resume(guest, NULL);
	ok(other_beats && !exposed_beats, "a guest that runs again does not depend on it");
	fake_qemu_refuse(qemu, "stop", 0);
	exposed_beats = other_beats = 0;
	ok(libvirt_guest_stop(guest, NULL) < 0 && exposed_beats && other_beats,
	   "nor does one that could not be stopped");
	fake_qemu_refuse(qemu, NULL, 0);
}

static void test_long_stop(void)
{
	g->stopped_ns = clock_monotonic_ns() - LONG_S * UINT64_C(1000000000);
	clock_wait_ms(BEATS_MS / 2);
	exposed_beats = other_beats = 0;
	clock_wait_ms(BEATS_MS);
	ok(!exposed_beats && !other_beats, "a guest that is held for %d s: silence", LONG_S);
	g->stopped_ns = clock_monotonic_ns();
	ok(await(&exposed_beats), "a guest that is held for a moment: it is served");
	g->stopped_ns = 0;
}

int main(int argc, char **argv)
{
	struct libvirt_domain domain;

	fake_qemu_main(argc, argv);
	qemu = fake_qemu_create(1);
	domain = fake_qemu_domain(qemu);
	if (libvirt_guest_create(&domain, NULL, false, &g, NULL) ||
	    libvirt_guest_beat(g, on_beat, NULL, NULL))
		abort();
	test_beats();
	libvirt_guest_expose(g, false);
	test_at_once();
	libvirt_guest_expose(g, true);
	test_long_stop();
	exposed_beats = other_beats = 0;
	libvirt_beat_stop(g);
	ok(!other_beats, "an end that leaves patches does not say that there are none");
	libvirt_guest_expose(g, false);
	if (libvirt_guest_beat(g, on_beat, NULL, NULL))
		abort();
	other_beats = 0;
	libvirt_beat_stop(g);
	is_u64(other_beats, 1, "one that leaves none does, at once");
	libvirt_guest_destroy(g);
	fake_qemu_destroy(qemu);
	return tap_done();
}
