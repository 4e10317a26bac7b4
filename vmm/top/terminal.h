/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_TERMINAL_H
#define SONDE_VMM_TOP_TERMINAL_H

#include "vmm/top/screen.h"

/* The terminal that shows a screen, by ncurses. One at a time. */

/* -ENOTSUP: standard output is no terminal that ncurses knows. */
int top_terminal_open(struct error *err);
/* As it was before. Also if it is not open. */
void top_terminal_close(void);

void top_terminal_size(unsigned int *lines, unsigned int *columns);
void top_terminal_show(const struct top_screen *screen);

/* Wait for a key, up to so many ms. Returns it, as top_press() takes it; -1: none. */
int top_terminal_key(int ms);

#endif
