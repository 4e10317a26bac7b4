/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "vmm/libvirt/attach/attach.h"
#include "vmm/cmd.h"
#include "vmm/loop/event-loop.h"
#include "vmm/monitor/monitor.h"

static const char verb[] = "attach";

enum {
	LOOK_MS = 100,   /* how often events are counted ... */
	STATE_LOOKS = 5, /* ... of which every so many ask for the domain */
	TRAP_LOOKS = 20, /* in which libvirt comes to know of an end that the gdbstub has seen */
	MS_PER_S = 1000,
	NS_PER_MS = 1000000,
	STATUS_SIGNAL = 128,
};

enum end_reason { END_ASKED = 1, END_SIGNAL, END_DOMAIN, END_LIBVIRT };

struct attaching {
	struct attach attach;
	struct attach_options options;
	struct event_loop *loop;
	struct monitor *monitor;
	struct monitor_target target;
	int signal_fd, signal_number;
	uint64_t looks, looks_without_traps;
	struct error lost; /* END_LIBVIRT: why it cannot be asked any more */
};

/* --- what ends it ---------------------------------------------------------------------------- */

static void on_signal(void *arg, int fd, uint32_t events)
{
	struct attaching *self = arg;
	struct signalfd_siginfo info;

	(void)events;
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	self->signal_number = (int)info.ssi_signo;
	event_loop_quit(self->loop, END_SIGNAL);
}

/* It ends, for whatever reason, as those wanted who have asked for it until now. The next one is
 * hard, and the watchdog's business. */
static void stop_catching(struct attaching *self)
{
	struct signalfd_siginfo info;
	sigset_t all;

	while (read(self->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
}

static int catch_signals(struct attaching *self, struct error *err)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	self->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (self->signal_fd < 0)
		return error_set(err, errno, "cannot watch for signals: %s", strerror(errno));
	return event_loop_add_fd(self->loop, self->signal_fd, EPOLLIN, on_signal, self, NULL, err);
}

static void on_duration(void *arg)
{
	event_loop_quit(((struct attaching *)arg)->loop, END_ASKED);
}

static void look_at_domain(struct attaching *self)
{
	const char *note = "the connection to libvirt was lost";

	if (attach_look(&self->attach, &self->lost)) {
		event_loop_quit(self->loop, END_LIBVIRT);
	} else {
		note = self->attach.why;
		if (note)
			event_loop_quit(self->loop, END_DOMAIN);
	}
	run_trace_note(self->attach.trace, note);
}

/* Whether breakpoints are still served; if not, by the domain's end or by an error. */
static void look_at_traps(struct attaching *self)
{
	struct libvirt_trap_counts counts;

	run_trace_tick(self->attach.trace);
	if (!libvirt_guest_trap_counts(self->attach.guest, &counts, &self->lost))
		return;
	/* libvirt may come to know of the domain's end a moment after the gdbstub */
	look_at_domain(self);
	if (++self->looks_without_traps == TRAP_LOOKS)
		event_loop_quit(self->loop, END_LIBVIRT);
}

static void on_look(void *arg)
{
	struct attaching *self = arg;
	uint64_t enough = self->options.until_events;

	if (self->options.trap)
		look_at_traps(self);

	if (enough && run_trace_events(self->attach.trace) >= enough)
		event_loop_quit(self->loop, END_ASKED);
	if (++self->looks % STATE_LOOKS == 0)
		look_at_domain(self);
}

/* Somebody migrates or saves it: breakpoints must not go along. */
static void on_moved(void *arg, int fd, uint32_t events)
{
	struct attaching *self = arg;
	eventfd_t count;

	(void)events;
	if (!eventfd_read(fd, &count) && self->options.trap)
		libvirt_guest_move(self->attach.guest);
}

static int watch_for_end(struct attaching *self, struct error *err)
{
	unsigned int ms = (unsigned int)self->options.duration_s * MS_PER_S;
	int rc = event_loop_add_timer(self->loop, LOOK_MS, on_look, self, NULL, err);

	if (!rc)
		rc = event_loop_add_fd(self->loop, self->attach.events.moved, EPOLLIN, on_moved,
				       self, NULL, err);

	if (!rc && self->options.duration_s)
		rc = event_loop_add_timer(self->loop, ms, on_duration, self, NULL, err);
	return rc;
}

/* --- the run --------------------------------------------------------------------------------- */

/* A domain that only sonde itself holds for a moment runs. */
static const char *domain_status(void *arg)
{
	struct attaching *self = arg;
	enum libvirt_run_state state;
	enum libvirt_pause pause;

	if (libvirt_domain_state(&self->attach.domain, &state, NULL))
		return "internal-error";
	if (state == LIBVIRT_GONE)
		return "shutdown";
	if (libvirt_domain_pause(&self->attach.domain, &pause, NULL))
		return "internal-error";
	return pause == LIBVIRT_PAUSE_OTHERS ? "paused" : "running";
}

static int refer_to_virsh(const struct attaching *self, const char *command, struct error *err)
{
	const char *uri = self->options.uri;

	return error_set(err, ENOTSUP, "the domain is libvirt's: use 'virsh %s%s%s%s %s'",
			 uri ? "-c " : "", uri ? uri : "", uri ? " " : "", command,
			 self->attach.domain.name);
}

static int domain_pause(void *arg, struct error *err)
{
	return refer_to_virsh(arg, "suspend", err);
}

static int domain_resume(void *arg, struct error *err)
{
	return refer_to_virsh(arg, "resume", err);
}

static void domain_quit(void *arg)
{
	event_loop_quit(((struct attaching *)arg)->loop, END_ASKED);
}

static const struct monitor_guest_ops domain_ops = {
	.status = domain_status,
	.pause = domain_pause,
	.resume = domain_resume,
	.quit = domain_quit,
};

static int create_monitor(struct attaching *self, struct error *err)
{
	if (!self->options.monitor)
		return 0;
	self->target = (struct monitor_target){.guest = libvirt_guest(self->attach.guest),
					       .ops = &domain_ops,
					       .arg = self,
					       .trace = run_trace_monitor_ops(),
					       .trace_arg = self->attach.trace};
	return monitor_create(self->loop, self->options.monitor, &self->target, &self->monitor,
			      err);
}

static int run(struct attaching *self, enum end_reason *reason, struct error *err)
{
	int rc = catch_signals(self, err);

	if (!rc)
		rc = create_monitor(self, err);
	if (!rc)
		rc = attach_begin(&self->attach, err);
	if (!rc)
		rc = watch_for_end(self, err);
	if (!rc) {
		run_trace_tell_refused(self->attach.trace);
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "sonde attach: tracing %s; Ctrl-C ends it\n",
				self->attach.domain.name);
		*reason = (enum end_reason)event_loop_run(self->loop);
	}
	stop_catching(self);
	monitor_destroy(self->monitor);
	return rc;
}

/* What --mode trap has cost, on stderr. */
static void tell_traps(const struct attaching *self)
{
	const struct libvirt_trap_counts *traps = &self->attach.traps;

	run_trace_tell_rate(self->attach.trace);
	if (traps->hits)
		fprintf(stderr,
			"sonde attach: %" PRIu64
			" breakpoints hit; the domain stood still for %" PRIu64
			" ms, QEMU's own part not counted\n",
			traps->hits, traps->held_ns / NS_PER_MS);
	if (self->options.verbose && traps->loans)
		fprintf(stderr,
			"sonde attach: the kernel's page tables were lent %" PRIu64
			" times to a vCPU in user mode, to reach breakpoints\n",
			traps->loans);
}

static int tell_domain(const struct attaching *self)
{
	struct error err;

	fprintf(stderr, "sonde attach: %s, and the trace ended with it\n", self->attach.why);
	if (!self->attach.saved_breaks)
		return CLI_OK;
	error_set(&err, EIO,
		  "its memory was taken along with breakpoints in it, where it will crash: do not "
		  "let "
		  "it go on from that, start it anew (virsh managedsave-remove)");
	return cli_error(verb, &err);
}

/* The last line, and the exit status. */
static int conclude(struct attaching *self, enum end_reason reason)
{
	struct error err;

	if (self->options.trap)
		tell_traps(self);
	if (run_trace_conclude(self->attach.trace, &err) && reason != END_DOMAIN)
		return cli_error(verb, &err);
	switch (reason) {
	case END_SIGNAL:
		return STATUS_SIGNAL + self->signal_number;
	case END_DOMAIN:
		return tell_domain(self);
	case END_LIBVIRT:
		return cli_error(verb, &self->lost);
	default:
		return CLI_OK;
	}
}

static int attach_and_run(struct attaching *self)
{
	enum end_reason reason = END_ASKED;
	struct error err = {0}, undone = {0};
	int rc = attach_open(&self->attach, &self->options, &err), end;

	if (!rc && self->options.dry_run)
		rc = attach_print_plan(&self->attach, stdout, &err);
	else if (!rc && self->options.verbose)
		attach_print(&self->attach, stderr);
	if (!rc && !self->options.dry_run)
		rc = run(self, &reason, &err);
	end = attach_end(&self->attach, &undone);
	if (rc)
		cli_error(verb, &err);
	if (end)
		cli_error(verb, &undone);
	if (rc || end)
		return CLI_FAILED;
	if (self->attach.why)
		reason = END_DOMAIN;
	return self->options.dry_run ? cli_flush(verb) : conclude(self, reason);
}

int cmd_attach(int argc, char **argv)
{
	struct attaching self = {.signal_fd = -1};
	struct error err;
	int status = attach_options_parse(argc, argv, &self.options);

	if (status)
		return status - 1;
	if (event_loop_create(&self.loop, &err))
		return cli_error(verb, &err);
	status = attach_and_run(&self);
	attach_close(&self.attach);
	event_loop_destroy(self.loop);
	if (self.signal_fd >= 0)
		close(self.signal_fd);
	return status;
}
