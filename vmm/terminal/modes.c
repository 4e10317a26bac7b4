/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/terminal/modes.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>

static struct {
	_Atomic bool kept;
	int fd;
	struct termios modes;
	terminal_leave_fn *leave;
} terminal;

/* Also those that end a program unless it handles them, as it does later. */
static const int fatal_signals[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE, SIGABRT,
				    SIGQUIT, SIGTERM, SIGINT, SIGHUP};

static void restore_and_die(int signal_number)
{
	terminal_modes_restore();
	/* SA_RESETHAND has restored the default action, which makes the usual core dump. */
	raise(signal_number);
}

static void hook_exits(void)
{
	static bool hooked;
	struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = SA_RESETHAND};

	if (hooked)
		return;
	hooked = true;
	atexit(terminal_modes_restore);
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(fatal_signals[0]); i++) {
		struct sigaction now;

		/* nohup ignores SIGHUP */
		if (!sigaction(fatal_signals[i], NULL, &now) && now.sa_handler == SIG_DFL)
			sigaction(fatal_signals[i], &action, NULL);
	}
}

int terminal_modes_keep(int fd, terminal_leave_fn *leave, struct error *err)
{
	if (tcgetattr(fd, &terminal.modes) < 0)
		return error_set(err, errno, "cannot read terminal modes: %s", strerror(errno));
	terminal.fd = fd;
	terminal.leave = leave;
	hook_exits();
	atomic_store(&terminal.kept, true);
	return 0;
}

void terminal_modes_restore(void)
{
	if (!atomic_exchange(&terminal.kept, false))
		return;
	tcsetattr(terminal.fd, TCSANOW, &terminal.modes);
	if (terminal.leave)
		terminal.leave();
}

bool terminal_modes_are_kept(void)
{
	return atomic_load(&terminal.kept);
}
