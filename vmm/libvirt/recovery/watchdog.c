/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "vmm/libvirt/connection/death.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/recovery/recover.h"

enum {
	PATIENCE_MS = 10000,
	AGAIN_S = 1, /* the first pause between two attempts; doubles up to ... */
	AGAIN_MOST_S = 30,
	GIVE_UP_S = 600,
	BEAT_S = 10,
	/* behind that: 2 s in which this process runs */
	LOOK_MS = 100,
	LOOKS = 20,
	/* how often to look whether the tracer is dead though its end of the pipe is open, and how
	 * long it must have been */
	DEAD_LOOK_MS = 1000,
	DEAD_MS = 2000,
};

/* What follows the uuid. */
static const char undone_mark = 'q', beat_mark = 'b', idle_mark = 'i';

/* --- in the watchdog ------------------------------------------------------------------------- */

struct watch {
	int fd;
	int tracer;  /* pidfd */
	int threads; /* libvirt_threads_open() of the tracer */
	const char *uri;
	char uuid[LIBVIRT_UUID_TEXT];
	size_t nr_uuid;    /* bytes of it so far */
	bool undone;       /* by the tracer */
	uint64_t deadline; /* ms, for the next beat; 0: none */
	unsigned int looks; /* without a beat, behind the deadline */
	bool killed;        /* the tracer was */
	uint64_t dead_ms;   /* since when the tracer is seen dead; 0: it is not */
};

/* The tracer lived when it sent it. */
static void take_byte(struct watch *w, char c)
{
	w->looks = 0;
	w->dead_ms = 0;
	if (w->nr_uuid < sizeof(w->uuid))
		w->uuid[w->nr_uuid++] = c;
	else if (c == beat_mark)
		w->deadline = clock_monotonic_ms() + BEAT_S * 1000;
	else if (c == idle_mark)
		w->deadline = 0;
	else
		w->undone = c == undone_mark;
}

/* The domain may be frozen as long as the tracer lives: its end has the gdbstub. */
static void kill_tracer(struct watch *w)
{
	w->deadline = 0;
	w->killed = !syscall(SYS_pidfd_send_signal, w->tracer, SIGKILL, NULL, 0);
}

/* How long to wait for the tracer. */
static int patience_ms(const struct watch *w)
{
	const uint64_t now = clock_monotonic_ms();

	if (w->deadline && w->deadline <= now)
		return LOOK_MS;
	return w->deadline && w->deadline - now < DEAD_LOOK_MS ? (int)(w->deadline - now)
							       : DEAD_LOOK_MS;
}

/* Most tracers that are dead end at once, and their end of the pipe is closed. */
static bool hangs_dead(struct watch *w)
{
	if (libvirt_threads_life(w->threads) == LIBVIRT_LIVES)
		w->dead_ms = 0;
	else if (!w->dead_ms)
		w->dead_ms = clock_monotonic_ms();
	return w->dead_ms && clock_monotonic_ms() - w->dead_ms >= DEAD_MS;
}

/* The clock goes on while both processes are frozen, or their host is. Then this one may be the
 * first to run again. So looks are counted, of which that takes one. */
static void look_again(struct watch *w)
{
	if (w->deadline && clock_monotonic_ms() >= w->deadline && ++w->looks > LOOKS)
		kill_tracer(w);
}

/* Reads until the tracer is dead. */
static void read_all(struct watch *w)
{
	for (;;) {
		struct pollfd poll_fd = {.fd = w->fd, .events = POLLIN};
		int n = poll(&poll_fd, 1, patience_ms(w));
		char text[64];
		ssize_t size;

		if (n < 0 && errno == EINTR)
			continue;
		if (!n && hangs_dead(w))
			return;
		if (!n) {
			look_again(w);
			continue;
		}
		size = read(w->fd, text, sizeof(text));
		if (size <= 0 && !(size < 0 && errno == EINTR))
			return;
		for (ssize_t i = 0; i < size; i++)
			take_byte(w, text[i]);
	}
}

static void print_recovery(const struct libvirt_recovery *recovery)
{
	if (recovery->ended) {
		fprintf(stderr, "sonde attach: the traced domain has ended: the watchdog has "
				"nothing to put back\n");
		return;
	}
	fprintf(stderr, "sonde attach: the watchdog has put back %zu places%s%s%s\n",
		recovery->places.restored, recovery->had_breaks ? ", removed the breakpoints" : "",
		recovery->met_task ? ", waited for a task that was preempted in the tracer's code"
				   : "",
		recovery->resumed ? ", and resumed the domain" : "");
}

/*
 * Errors that pass by themselves: a vCPU or task is still in scratch memory, the guest has not
 * released the device, the domain is paused, being saved or busy with a job of libvirt's, libvirtd
 * is being restarted, the gdbstub's connection was lost, the journals' file system is full.
 */
static bool is_worth_waiting(int ret)
{
	return ret == -EBUSY || ret == -ETIMEDOUT || ret == -ECANCELED || ret == -ENOTCONN ||
	       ret == -EIO || ret == -EBADMSG || ret == -ECONNRESET || ret == -ENOSPC ||
	       ret == -EDQUOT;
}

static unsigned int longer(unsigned int step)
{
	return step * 2 < AGAIN_MOST_S ? step * 2 : AGAIN_MOST_S;
}

/* In a process that no other waits for. It gives up stderr, as a reader of the tracer's output may
 * wait for its end. */
static void keep_trying(const struct watch *w)
{
	struct libvirt_recovery recovery;
	unsigned int waited = 0;
	int ret = -EBUSY;

	dup2(STDOUT_FILENO, STDERR_FILENO);
	for (unsigned int step = AGAIN_S; waited < GIVE_UP_S && is_worth_waiting(ret);
	     step = longer(step)) {
		sleep(step);
		waited += step;
		ret = libvirt_recover(w->uri, w->uuid, false, PATIENCE_MS, &recovery, NULL);
	}
}

static int print_failure(bool tries_again, struct error *err)
{
	if (!tries_again)
		error_prefix(err, "the watchdog could not undo everything, use 'sonde recover': ");
	else
		error_prefix(err,
			     "the watchdog could not undo everything yet, and tries again for %d "
			     "minutes; 'sonde recover' does it at once: ",
			     GIVE_UP_S / 60);
	return cli_error("attach", err);
}

/* Nothing is printed before the recovery, and before a process is there that tries again: what
 * blocks may be the terminal, or the file system of a log. A tracer that lives waits for this
 * process's exit status. */
static int recover(const struct watch *w)
{
	struct libvirt_recovery recovery;
	struct error err;
	int ret = libvirt_recover(w->uri, w->uuid, true, PATIENCE_MS, &recovery, &err);
	const pid_t again = ret && is_worth_waiting(ret) ? fork() : -1;

	if (!again) {
		keep_trying(w);
		return CLI_FAILED;
	}
	if (w->killed)
		fprintf(stderr,
			"sonde attach: the tracer was stopped or hung for %d s, while "
			"the domain depended on it: the watchdog has killed it\n",
			BEAT_S);
	if (ret)
		return print_failure(again > 0, &err);
	print_recovery(&recovery);
	return CLI_OK;
}

/* Ctrl-C and a closing terminal are for the tracer alone. */
static void become_independent(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* without it they stay as they are */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
}

/* Tells the tracer whether it can be watched over. */
static int watch(struct watch *w, int answer)
{
	const int code = -libvirt_threads_try(w->threads);

	if (write(answer, &code, sizeof(code)) != sizeof(code) || code)
		return CLI_FAILED;
	close(answer);
	become_independent();
	read_all(w);
	if (w->nr_uuid < sizeof(w->uuid) || w->undone)
		return CLI_OK;
	w->uuid[sizeof(w->uuid) - 1] = '\0';
	return recover(w);
}

/* --- in the tracer --------------------------------------------------------------------------- */

/* What the watchdog finds when it looks at this process. Its own end of the pipe is closed. */
static int await_answer(int answer)
{
	ssize_t n;
	int code;

	do
		n = read(answer, &code, sizeof(code));
	while (n < 0 && errno == EINTR);
	return n == sizeof(code) ? -code : -ECHILD;
}

static int check(pid_t pid, int answer, struct error *err)
{
	int ret = await_answer(answer);

	if (!ret)
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return error_set(err, -ret,
			 "the watchdog cannot look at this process, which it is to watch: %s; a "
			 "/proc without hidepid allows that",
			 strerror(-ret));
}

/* Returns in the tracer, not in the watchdog. -errno. */
static pid_t fork_watchdog(int ends[2], int answer, const char *uri)
{
	struct watch w = {
		.fd = ends[0], .tracer = (int)syscall(SYS_pidfd_open, getpid(), 0), .uri = uri};
	pid_t pid;
	int code;

	/* the watchdog could not end it */
	if (w.tracer < 0)
		return -errno;
	/* nor see that it is dead while it hangs */
	w.threads = libvirt_threads_open();
	pid = w.threads < 0 ? -1 : fork();
	code = errno;
	if (!pid) {
		close(ends[1]);
		_exit(watch(&w, answer));
	}
	close(w.tracer);
	if (w.threads >= 0)
		close(w.threads);
	return pid < 0 ? -code : pid;
}

static pid_t start(int ends[2], const char *uri, struct error *err)
{
	int answer[2], ret;
	pid_t pid;

	if (pipe2(answer, O_CLOEXEC))
		return error_set(err, errno, "no pipe: %s", strerror(errno));
	pid = fork_watchdog(ends, answer[1], uri);
	close(answer[1]);
	ret = pid < 0 ? error_set(err, -pid, "cannot start the watchdog: %s", strerror(-pid))
		      : check(pid, answer[0], err);
	close(answer[0]);
	return ret ? ret : pid;
}

int libvirt_watchdog_start(const char *uri, struct libvirt_watchdog *out, struct error *err)
{
	int ends[2];

	out->fd = -1;
	/* one that has died is an error of a write */
	signal(SIGPIPE, SIG_IGN);
	if (pipe2(ends, O_CLOEXEC))
		return error_set(err, errno, "no pipe: %s", strerror(errno));
	/* a watchdog that is stopped does not block the tracer */
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK))
		out->pid = error_set(err, errno, "cannot start the watchdog: %s", strerror(errno));
	else
		out->pid = start(ends, uri, err);
	close(ends[0]);
	if (out->pid < 0) {
		close(ends[1]);
		return out->pid;
	}
	out->fd = ends[1];
	return 0;
}

static int send_bytes(struct libvirt_watchdog *w, const void *bytes, size_t size, struct error *err)
{
	if (write(w->fd, bytes, size) == (ssize_t)size)
		return 0;
	return error_set(err, EPIPE, "the watchdog has died: the domain is not changed");
}

int libvirt_watchdog_arm(struct libvirt_watchdog *w, const char *uuid, struct error *err)
{
	char text[LIBVIRT_UUID_TEXT] = "";

	snprintf(text, sizeof(text), "%s", uuid);
	return send_bytes(w, text, sizeof(text), err);
}

void libvirt_watchdog_beat(struct libvirt_watchdog *w, bool exposed)
{
	send_bytes(w, exposed ? &beat_mark : &idle_mark, 1, NULL);
}

bool libvirt_watchdog_end(struct libvirt_watchdog *w, bool undone)
{
	int status = 0;

	if (w->fd < 0)
		return true;
	if (undone)
		send_bytes(w, &undone_mark, sizeof(undone_mark), NULL);
	close(w->fd);
	w->fd = -1;
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == CLI_OK;
}
