/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A domain as its recorder and the monitor's clients see it, and what ends the trace. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/loop/event-loop.h"

enum {
	CHECK_MS = 100,   /* how often breakpoints are checked ... */
	STATE_CHECKS = 5, /* ... and every so many times the domain */
	TRAP_CHECKS = 20, /* in which libvirt learns of an end that the gdbstub has seen */
};

/* --- operations of the owner ----------------------------------------------------------------- */

/* A domain that sonde itself has stopped for a moment counts as running. */
static const char *owner_status(void *arg)
{
	struct attach *a = arg;
	enum libvirt_run_state state;
	enum libvirt_pause pause;

	if (libvirt_domain_state(&a->domain, &state, NULL))
		return "internal-error";
	if (state == LIBVIRT_GONE)
		return "shutdown";
	if (libvirt_domain_pause(&a->domain, &pause, NULL))
		return "internal-error";
	return pause == LIBVIRT_PAUSE_OTHERS ? "paused" : "running";
}

static int owner_pause(void *arg, struct error *err)
{
	return error_set(err, ENOTSUP, "libvirt owns the domain: use '%s'",
			 attach_virsh(arg, "suspend").text);
}

static int owner_resume(void *arg, struct error *err)
{
	return error_set(err, ENOTSUP, "libvirt owns the domain: use '%s'",
			 attach_virsh(arg, "resume").text);
}

static void quit(struct attach *a, enum attach_reason reason)
{
	event_loop_quit(a->loop, (int)reason);
}

static void owner_quit(void *arg)
{
	quit(arg, ATTACH_ASKED);
}

static const struct monitor_guest_ops owner_ops = {
	.status = owner_status,
	.pause = owner_pause,
	.resume = owner_resume,
	.quit = owner_quit,
};

/* --- what ends it ---------------------------------------------------------------------------- */

/* The guest stands still from now on, and the administrator may destroy it. */
static void note_panic(struct attach *a, bool panicked)
{
	if (panicked && !a->panicked) {
		recorder_say(a->recorder, "guest panicked");
		recorder_snapshot(a->recorder);
	}
	a->panicked = panicked;
}

/* Set a->why if tracing has to end. -errno if libvirt does not answer. */
static int find_why(struct attach *a, struct error *err)
{
	enum libvirt_run_state state;
	int ret;

	a->why = libvirt_events_why(&a->events);
	if (!a->why)
		a->why = recorder_ended(a->recorder);
	if (a->why)
		return 0;
	ret = libvirt_domain_try_state(&a->domain, &state, err);
	if (ret == -EBUSY)
		return 0;
	if (!ret)
		note_panic(a, state == LIBVIRT_PANICKED);
	if (!ret && state == LIBVIRT_RUNS && libvirt_guest_moves(a->guest)) {
		a->why = "the domain is being migrated, or saved while it runs";
		return 0;
	}
	if (!libvirt_process_ended(&a->domain.qemu) && (ret || state != LIBVIRT_GONE))
		return ret;
	a->why = attach_why_gone(a);
	return 0;
}

static void check_domain(struct attach *a)
{
	a->disconnected = find_why(a, &a->lost);
	if (a->disconnected)
		quit(a, ATTACH_LIBVIRT);
	else if (a->why)
		quit(a, ATTACH_DOMAIN);
}

/* End the trace if the gdbstub's thread has stopped: because the domain has ended, or by an error.
 */
static void check_traps(struct attach *a)
{
	struct libvirt_trap_counts counts;

	if (!libvirt_guest_trap_counts(a->guest, &counts, &a->lost))
		return;
	/* libvirt may learn of the domain's end a moment after the gdbstub */
	check_domain(a);
	if (++a->checks_without_traps == TRAP_CHECKS)
		quit(a, ATTACH_LIBVIRT);
}

static void on_check(void *arg)
{
	struct attach *a = arg;

	if (a->options->recorder.mode == RECORDER_TRAP)
		check_traps(a);
	if (++a->checks % STATE_CHECKS == 0 || recorder_ended(a->recorder))
		check_domain(a);
}

/* The domain is migrated or saved: breakpoints must not go along. */
static void on_moved(void *arg, int fd, uint32_t events)
{
	struct attach *a = arg;
	eventfd_t count;

	(void)events;
	if (!eventfd_read(fd, &count) && a->options->recorder.mode == RECORDER_TRAP)
		libvirt_guest_move(a->guest);
}

/* --- tracing --------------------------------------------------------------------------------- */

/* For recovery, which does not know the kernel. Before the first change. */
static int note_tasks(struct attach *a, struct error *err)
{
	struct task_stacks tasks;
	int ret = task_stacks_init(&a->kernel.kernel, &tasks, err);

	return ret ? ret : libvirt_journal_tasks(&a->journal, &tasks, err);
}

static int plug(struct attach *a, struct error *err)
{
	struct error why;
	int ret = note_tasks(a, err);

	if (ret)
		return ret;
	if (!libvirt_guest_plug(a->guest, &why))
		return 0;
	if (why.code == EEXIST)
		return error_set(err, EEXIST, "%s", why.text);
	return error_set(err, why.code, "%s; or use --mode trap, which is slow but needs no device",
			 why.text);
}

static int begin_recorder(struct attach *a, struct error *err)
{
	struct error why;
	int ret = recorder_begin(a->recorder, libvirt_guest(a->guest), &why);

	return ret ? attach_refuse(a, &why, err) : 0;
}

static int use_traps(struct attach *a, struct error *err)
{
	const struct kernel *kernel = &a->kernel.kernel;

	return libvirt_guest_use_traps(a->guest, kernel_gva(kernel, kernel->image->text),
				       kernel->phys_text, err);
}

/* Give the domain memory or breakpoints, and start tracing. */
static int begin(struct attach *a, struct error *err)
{
	const bool traps = a->options->recorder.mode == RECORDER_TRAP;
	int ret = traps ? use_traps(a, err) : plug(a, err);

	if (ret)
		return ret;
	a->begun = true;
	if (!traps)
		libvirt_guest_expose(a->guest, true);
	return begin_recorder(a, err);
}

static int trace(struct attach *a, struct error *err)
{
	int reason, ret;

	ret = recorder_watch(a->recorder, libvirt_guest(a->guest), &owner_ops, a, err);
	if (!ret)
		ret = begin(a, err);
	if (!ret)
		ret = event_loop_add_timer(a->loop, CHECK_MS, on_check, a, NULL, err);
	if (!ret)
		ret = event_loop_add_fd(a->loop, a->events.moved, EPOLLIN, on_moved, a, NULL, err);
	if (ret)
		return ret;
	if (isatty(STDERR_FILENO))
		recorder_say(a->recorder, "tracing %s; Ctrl-C ends it", a->domain.name);
	ret = recorder_run(a->recorder, &reason, err);
	a->reason = (enum attach_reason)reason;
	return ret;
}

int attach_run(struct attach *a, struct error *err)
{
	int ret = trace(a, err);

	recorder_close(a->recorder);
	return ret;
}
