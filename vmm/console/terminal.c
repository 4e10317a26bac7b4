// SPDX-License-Identifier: GPL-2.0-or-later
#include "vmm/console/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static enum terminal_action escape_action(uint8_t key)
{
	switch (key) {
	case 'x':
		return TERMINAL_QUIT;
	case 'c':
		return TERMINAL_MONITOR;
	case 'h':
	case '?':
		return TERMINAL_HELP;
	default:
		return TERMINAL_NONE;
	}
}

size_t terminal_keys_feed(struct terminal_keys *keys, const uint8_t *in, size_t n, uint8_t *out,
			  size_t *n_out, enum terminal_action *action)
{
	*n_out = 0;
	*action = TERMINAL_NONE;
	for (size_t i = 0; i < n; i++) {
		if (!keys->escaped) {
			if (in[i] == TERMINAL_ESCAPE)
				keys->escaped = true;
			else
				out[(*n_out)++] = in[i];
			continue;
		}
		keys->escaped = false;
		if (in[i] == TERMINAL_ESCAPE || in[i] == 'a')
			out[(*n_out)++] = TERMINAL_ESCAPE;
		*action = escape_action(in[i]);
		if (*action != TERMINAL_NONE)
			return i + 1;
	}
	return n;
}

static struct {
	_Atomic bool raw;
	int fd;
	struct termios saved;
} terminal;

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGQUIT};

static void restore_and_die(int signal_number)
{
	terminal_leave_raw();
	/* SA_RESETHAND put the default action back, which now makes the usual core dump. */
	raise(signal_number);
}

static void hook_exits(void)
{
	static bool hooked;
	struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = SA_RESETHAND};

	if (hooked)
		return;
	hooked = true;
	atexit(terminal_leave_raw);
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(fatal_signals[0]); i++)
		sigaction(fatal_signals[i], &action, NULL);
}

int terminal_enter_raw(int fd, struct error *err)
{
	struct termios raw;

	if (!isatty(fd) || tcgetpgrp(fd) != getpgrp())
		return error_set(err, ENOTTY, "standard input is not a terminal of ours");
	if (tcgetattr(fd, &terminal.saved) < 0)
		return error_set(err, errno, "cannot read terminal modes: %s", strerror(errno));
	raw = terminal.saved;
	raw.c_iflag &= ~(unsigned int)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
	raw.c_lflag &= ~(unsigned int)(ECHO | ICANON | IEXTEN | ISIG);
	/* Output processing stays on, so that our own messages look right between the guest's. */
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	hook_exits();
	terminal.fd = fd;
	if (tcsetattr(fd, TCSANOW, &raw) < 0)
		return error_set(err, errno, "cannot set terminal modes: %s", strerror(errno));
	atomic_store(&terminal.raw, true);
	return 0;
}

void terminal_leave_raw(void)
{
	if (atomic_exchange(&terminal.raw, false))
		tcsetattr(terminal.fd, TCSANOW, &terminal.saved);
}

bool terminal_is_raw(void)
{
	return atomic_load(&terminal.raw);
}
