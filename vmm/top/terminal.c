/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/terminal.h"

#include <errno.h>
#include <ncurses.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

static SCREEN *terminal;
static struct termios shell_modes;

static void restore_and_die(int number)
{
	if (terminal)
		endwin();
	/* newterm() may be at work */
	tcsetattr(STDIN_FILENO, TCSANOW, &shell_modes);
	/* SA_RESETHAND has restored the default action */
	raise(number);
}

/* Unless they are ignored, as SIGHUP is under nohup. ncurses handles two of them only where nobody
 * does, and not before it has set the terminal up. */
static void restore_at_ends(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
	const struct sigaction action = {.sa_handler = restore_and_die, .sa_flags = SA_RESETHAND};
	struct sigaction now;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!sigaction(ends[i], NULL, &now) && now.sa_handler == SIG_DFL)
			sigaction(ends[i], &action, NULL);
}

int top_terminal_open(struct error *err)
{
	/* At the end of its input it would draw all the time. */
	if (!isatty(STDIN_FILENO))
		return error_set(err, ENOTSUP, "standard input is no terminal: use --once");
	tcgetattr(STDIN_FILENO, &shell_modes);
	restore_at_ends();
	terminal = isatty(STDOUT_FILENO) ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal)
		return error_set(err, ENOTSUP,
				 "standard output is no terminal that can be drawn "
				 "on: use --once");
	set_escdelay(25);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	return 0;
}

void top_terminal_close(void)
{
	if (!terminal)
		return;
	endwin();
	delscreen(terminal);
	terminal = NULL;
}

void top_terminal_size(unsigned int *lines, unsigned int *columns)
{
	*lines = LINES > 0 ? (unsigned int)LINES : 0;
	*columns = COLS > 0 ? (unsigned int)COLS : 0;
}

void top_terminal_show(const struct top_screen *screen)
{
	erase();
	for (unsigned int i = 0; i < screen->lines; i++) {
		const bool marked = i == screen->heading || i + 1 == screen->lines ||
				    (i && i == screen->cursor);

		if (marked)
			attron(A_REVERSE);
		mvaddstr((int)i, 0, screen->text[i]);
		if (marked)
			attroff(A_REVERSE);
	}
	refresh();
}

static int key_of(int key)
{
	switch (key) {
	case ERR:
	case KEY_RESIZE:
		return -1;
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_LEFT:
		return TOP_KEY_LEFT;
	case KEY_RIGHT:
		return TOP_KEY_RIGHT;
	case KEY_BACKSPACE:
	case '\b':
	case 0x7f:
		return TOP_KEY_BACKSPACE;
	case KEY_ENTER:
		return TOP_KEY_ENTER;
	case 0x1b:
		return TOP_KEY_ESCAPE;
	default:
		return key < 256 ? key : -1;
	}
}

int top_terminal_key(int ms)
{
	timeout(ms);
	return key_of(getch());
}
