/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/terminal.h"

#include <errno.h>
#include <ncurses.h>
#include <unistd.h>
#include "vmm/terminal/modes.h"

static SCREEN *terminal;

static void leave_screen(void)
{
	if (terminal)
		endwin();
}

int top_terminal_open(struct error *err)
{
	int ret;

	/* At the end of its input it would draw all the time. */
	if (!isatty(STDIN_FILENO))
		return error_set(err, ENOTSUP, "standard input is no terminal: use --once");
	/* first: ncurses handles two signals only where nobody does, and not before it has set the
	 * terminal up */
	ret = terminal_modes_keep(STDIN_FILENO, leave_screen, err);
	if (ret)
		return ret;
	terminal = isatty(STDOUT_FILENO) ? newterm(NULL, stdout, stdin) : NULL;
	if (!terminal) {
		terminal_modes_restore();
		return error_set(err, ENOTSUP,
				 "standard output is no terminal that can be drawn "
				 "on: use --once");
	}
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
	terminal_modes_restore();
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
