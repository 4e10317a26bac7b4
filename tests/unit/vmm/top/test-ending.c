/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program that draws on a terminal ends, by a signal or by itself: the terminal has its modes
 * back. */
#include "vmm/top/terminal.h"

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "tests/lib/tap.h"

enum { PATIENCE_S = 20 };

/* Whoever started this test may ignore the signal, as a shell does in the background. */
static void draw(int number)
{
	struct error err;

	signal(number, SIG_DFL);
	alarm(PATIENCE_S);
	setenv("TERM", "linux", 1);
	prctl(PR_SET_DUMPABLE, 0);
	if (top_terminal_open(&err))
		_exit(99);
	while (top_terminal_key(1000) != 'q')
		;
	exit(0);
}

static bool is_raw(int fd)
{
	struct termios modes;

	return tcgetattr(fd, &modes) || !(modes.c_lflag & ECHO);
}

/* Until it draws. */
static bool await_raw(int fd)
{
	for (int i = 0; i < 5000 && !is_raw(fd); i++)
		usleep(1000);
	return is_raw(fd);
}

static pid_t begin(int number, int *host, int *terminal)
{
	pid_t pid;

	if (openpty(host, terminal, NULL, NULL, NULL))
		abort();
	pid = fork();
	if (!pid) {
		dup2(*terminal, STDIN_FILENO);
		dup2(*terminal, STDOUT_FILENO);
		draw(number);
	}
	return pid;
}

static void test_signal(int number, const char *name)
{
	int host, terminal, status = 0;
	pid_t pid = begin(number, &host, &terminal);

	ok(await_raw(terminal), "%s: the terminal is drawn on", name);
	kill(pid, number);
	ok(waitpid(pid, &status, 0) == pid && status &&
		   !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM),
	   "%s ends the program", name);
	ok(!is_raw(terminal), "%s: the terminal has its modes back", name);
	close(host);
	close(terminal);
}

/* Without closing the terminal. */
static void test_exit(void)
{
	int host, terminal, status = 1;
	pid_t pid = begin(SIGTERM, &host, &terminal);

	ok(await_raw(terminal) && write(host, "q", 1) == 1 && waitpid(pid, &status, 0) == pid &&
		   !status,
	   "a program that draws exits");
	ok(!is_raw(terminal), "an exit gives the terminal its modes back");
	close(host);
	close(terminal);
}

int main(void)
{
	test_signal(SIGTERM, "SIGTERM");
	test_signal(SIGINT, "SIGINT");
	test_signal(SIGQUIT, "SIGQUIT");
	test_signal(SIGHUP, "SIGHUP");
	test_signal(SIGSEGV, "SIGSEGV");
	test_signal(SIGABRT, "SIGABRT");
	test_exit();
	return tap_done();
}
