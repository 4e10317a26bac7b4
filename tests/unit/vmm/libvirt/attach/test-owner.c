/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ends sonde attach, and what does not: a domain traced by breakpoints, without a trace. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/base/thread.h"
#include "tests/lib/fake-qemu.h"
#include "tests/lib/tap.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/libvirt/backend/internal.h"
#include "vmm/loop/event-loop.h"

enum {
	EARLY_MS = 50,      /* less than the domain is first looked at after */
	LOOKS_MS = 1700,    /* time in which it is looked at three times */
	PATIENCE_MS = 2000, /* for libvirt, after the gdbstub has failed */
};

static const struct kernel_image image;
static struct fake_qemu *qemu;
static struct attach attach;
static struct attach_options options;
static struct error err;
static uint64_t took_ms;

static void end_now(void)
{
	atomic_store(&attach.events.why, "the domain was shut down");
}

static void kill_domain(void)
{
	fake_qemu_kill(qemu);
}

static void lose_libvirt(void)
{
	fake_qemu_set_dead_libvirtd(qemu, true);
}

static void fail_traps(void)
{
	struct error why;

	error_set(&why, ETIMEDOUT, "the gdbstub does not answer");
	pthread_mutex_lock(&attach.guest->stopper);
	libvirt_traps_fail(&attach.guest->traps, &why);
	pthread_mutex_unlock(&attach.guest->stopper);
}

/* libvirt learns of the end a moment later. */
static void fail_and_end(void)
{
	fail_traps();
	clock_wait_ms(3 * EARLY_MS);
	end_now();
}

static void interrupt(void)
{
	kill(getpid(), SIGINT);
}

static void move(void)
{
	eventfd_write(attach.events.moved, 1);
}

static void panic(void)
{
	fake_qemu_panic(qemu);
	clock_wait_ms(LOOKS_MS);
	end_now();
}

static void suspend(void)
{
	fake_qemu_suspend(qemu);
	clock_wait_ms(LOOKS_MS);
	end_now();
}

static void *act(void *arg)
{
	void (*const *what)(void) = arg;

	clock_wait_ms(EARLY_MS);
	(*what)();
	return NULL;
}

static void set_up(void)
{
	struct recorder_config config = {.verb = "attach", .options = &options.recorder};

	qemu = fake_qemu_create(1);
	options = (struct attach_options){.domain = "fake"};
	recorder_options_init(&options.recorder);
	options.recorder.mode = RECORDER_TRAP;
	attach = (struct attach){.options = &options,
				 .watchdog.fd = -1,
				 .journal = {.folder = -1,
					     .fd = memfd_create("journal", MFD_CLOEXEC),
					     .compact_at = 1 << 20},
				 .domain = fake_qemu_domain(qemu),
				 .kernel.kernel.image = &image,
				 .events.moved = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (event_loop_create(&attach.loop, NULL))
		abort();
	config.loop = attach.loop;
	if (recorder_create(&config, &attach.recorder, NULL) ||
	    libvirt_guest_create(&attach.domain, &attach.journal, false, &attach.guest, NULL))
		abort();
}

static void tear_down(void)
{
	libvirt_guest_destroy(attach.guest);
	recorder_destroy(attach.recorder);
	event_loop_destroy(attach.loop);
	close(attach.events.moved);
	libvirt_journal_close(&attach.journal);
	fake_qemu_destroy(qemu);
}

/* Why tracing ends after this has happened. Sets took_ms, since then. */
static enum attach_reason reason_of(void (*what)(void))
{
	uint64_t begin;
	pthread_t thread;

	set_up();
	begin = clock_monotonic_ms() + EARLY_MS;
	if (thread_start(&thread, "act", act, &what) || attach_run(&attach, &err))
		abort();
	took_ms = clock_monotonic_ms() - begin;
	pthread_join(thread, NULL);
	return attach.reason;
}

static void ends(void (*what)(void), const char *why, const char *label)
{
	ok(reason_of(what) == ATTACH_DOMAIN && attach.begun && !attach.disconnected, "%s", label);
	is_str(attach.why, why, "the reason is told");
	tear_down();
}

static void test_lost(void)
{
	ok(reason_of(lose_libvirt) == ATTACH_LIBVIRT && attach.disconnected && attach.lost.code &&
		   !attach.why,
	   "a libvirtd that answers with errors ends it: %s", attach.lost.text);
	tear_down();
	ok(reason_of(fail_traps) == ATTACH_LIBVIRT && !attach.disconnected &&
		   attach.lost.code == ETIMEDOUT,
	   "so does a gdbstub that has failed, though libvirt answers: %s", attach.lost.text);
	ok(took_ms >= PATIENCE_MS - EARLY_MS,
	   "but libvirt has time to tell that the domain has ended");
	tear_down();
}

static void test_asked(void)
{
	ok(reason_of(interrupt) == ATTACH_ASKED && !attach.why, "Ctrl-C ends it");
	tear_down();
}

static void test_suspended(void)
{
	ok(reason_of(suspend) == ATTACH_DOMAIN && took_ms >= LOOKS_MS,
	   "a suspend does not end it, what follows does");
	tear_down();
}

/* The administrator may want to look at the guest. */
static void test_panicked(void)
{
	int said = memfd_create("stderr", MFD_CLOEXEC), before = dup(STDERR_FILENO);
	char text[256] = "";

	dup2(said, STDERR_FILENO);
	ok(reason_of(panic) == ATTACH_DOMAIN && took_ms >= LOOKS_MS && attach.panicked,
	   "a panic does not end it, what follows does");
	dup2(before, STDERR_FILENO);
	if (pread(said, text, sizeof(text) - 1, 0) < 0)
		abort();
	is_str(text, "sonde attach: guest panicked\n", "but it is told, once");
	close(said);
	close(before);
	tear_down();
}

int main(int argc, char **argv)
{
	fake_qemu_main(argc, argv);
	ends(end_now, "the domain was shut down", "an event of libvirt's ends it");
	ends(kill_domain, "the domain ended", "the end of QEMU's process ends it");
	ends(fail_and_end, "the domain was shut down",
	     "an end that the gdbstub has seen first ends it when libvirt says why");
	ends(move, "the domain is being migrated, or saved while it runs",
	     "a domain that is moved while it runs ends it");
	test_lost();
	test_asked();
	test_suspended();
	test_panicked();
	return tap_done();
}
