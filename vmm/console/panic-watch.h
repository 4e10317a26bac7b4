/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_PANIC_WATCH_H
#define SONDE_VMM_CONSOLE_PANIC_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds Linux's "Kernel panic - not syncing: REASON" in what a guest writes to its console, byte by
 * byte, and keeps the first reason. Needs no symbols and works for any kernel.
 */
enum { PANIC_REASON_SIZE = 160 };

struct panic_watch {
	size_t matched; /* bytes of the marker seen so far */
	bool found;
	bool complete; /* the reason's line has ended */
	size_t length;
	char reason[PANIC_REASON_SIZE]; /* printable, NUL-terminated, cut if longer */
};

/* Start with a zeroed struct. */
void panic_watch_feed(struct panic_watch *watch, uint8_t byte);

#endif
