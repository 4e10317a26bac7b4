/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/libvirt/recovery/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "vmm/libvirt/connection/lib.h"
#include "vmm/libvirt/recovery/recover.h"

enum {
	PATIENCE_MS = 10000,
	AGAIN_S = 1, /* the first pause between two attempts; doubles up to ... */
	AGAIN_MOST_S = 30,
	GIVE_UP_S = 600,
};
static const char undone_mark = 'q';

/* --- in the watchdog ------------------------------------------------------------------------- */

/* Reads until the tracer ends. */
static size_t read_all(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t n;

	while (used < size && (n = read(fd, text + used, size - used)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		used += n > 0 ? (size_t)n : 0;
	}
	return used;
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
 * is being restarted.
 */
static bool is_worth_waiting(int ret)
{
	return ret == -EBUSY || ret == -ETIMEDOUT || ret == -ECANCELED || ret == -ENOTCONN ||
	       ret == -EIO;
}

/* In a process that no other waits for. It gives up stderr, as a reader of the tracer's output may
 * wait for its end. */
static int keep_trying(const char *uri, const char *uuid)
{
	struct libvirt_recovery recovery;
	unsigned int step = AGAIN_S;
	int ret = -EBUSY;

	dup2(STDOUT_FILENO, STDERR_FILENO);
	for (unsigned int waited = 0; waited < GIVE_UP_S && is_worth_waiting(ret); waited += step) {
		step = waited ? step * 2 : step;
		step = step < AGAIN_MOST_S ? step : AGAIN_MOST_S;
		sleep(step);
		ret = libvirt_recover(uri, uuid, false, PATIENCE_MS, &recovery, NULL);
	}
	return ret ? CLI_FAILED : CLI_OK;
}

static int recover(const char *uri, const char *uuid)
{
	struct libvirt_recovery recovery;
	struct error err;
	int ret = libvirt_recover(uri, uuid, true, PATIENCE_MS, &recovery, &err);

	if (!ret) {
		print_recovery(&recovery);
		return CLI_OK;
	}
	if (!is_worth_waiting(ret)) {
		error_prefix(&err, "the watchdog could not undo everything, use 'sonde recover': ");
		return cli_error("attach", &err);
	}
	error_prefix(&err,
		     "the watchdog could not undo everything yet, and tries again for %d minutes; "
		     "'sonde recover' does it at once: ",
		     GIVE_UP_S / 60);
	cli_error("attach", &err);
	/* a tracer that lives waits for this process's exit status */
	return fork() ? CLI_FAILED : keep_trying(uri, uuid);
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
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
}

static int watch(int fd, const char *uri)
{
	char text[LIBVIRT_UUID_TEXT + 2] = "";
	size_t n;

	become_independent();
	n = read_all(fd, text, LIBVIRT_UUID_TEXT + 1);
	if (n < LIBVIRT_UUID_TEXT || text[LIBVIRT_UUID_TEXT] == undone_mark)
		return CLI_OK;
	text[LIBVIRT_UUID_TEXT - 1] = '\0';
	return recover(uri, text);
}

/* --- in the tracer --------------------------------------------------------------------------- */

int libvirt_watchdog_start(const char *uri, struct libvirt_watchdog *out, struct error *err)
{
	int ends[2];

	out->fd = -1;
	if (pipe2(ends, O_CLOEXEC))
		return error_set(err, errno, "no pipe: %s", strerror(errno));
	out->pid = fork();
	if (!out->pid) {
		close(ends[1]);
		_exit(watch(ends[0], uri));
	}
	close(ends[0]);
	if (out->pid < 0) {
		close(ends[1]);
		return error_set(err, errno, "cannot start the watchdog: %s", strerror(errno));
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
