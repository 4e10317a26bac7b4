/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_CONSOLE_H
#define SONDE_VMM_CONSOLE_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/loop/event-loop.h"
#include "vmm/devices/serial.h"
#include "vmm/console/terminal.h"

/*
 * The host's end of COM1. Output is collected and written by the event loop in one go, so that a
 * byte costs the vCPU no system call; a reader that does not read makes the UART busy, never the
 * vCPU wait. What the guest prints is searched for a kernel panic.
 */
struct console;

struct console_config {
	const char *path; /* output file, or NULL for standard output */
	bool discard;     /* no output anywhere */
	bool input;       /* read standard input, see vmm/console/input.h */
	/* On the event loop's thread: an escape key was typed; the guest's first panic message. */
	void (*key)(void *arg, enum terminal_action action);
	void (*panic)(void *arg, const char *reason);
	void *arg;
};

/* `serial` gets the input and must outlive the console. */
int console_create(const struct console_config *config, struct event_loop *loop,
		   struct serial *serial, struct console **out, struct error *err);
/* Restores the terminal. What was not flushed is lost. NULL-safe. */
void console_destroy(struct console *console);

/* Any thread: output a byte. Returns whether there is room for a UART's FIFO more. */
bool console_put(struct console *console, uint8_t byte);

/* Write out everything, giving up after 2 s without progress; for when the guest has stopped. */
void console_flush(struct console *console);

/* Bytes lost because the guest ignored a busy UART, or the output failed. */
uint64_t console_lost(struct console *console);

/* The reason of the guest's panic, NULL if it printed none. Valid while the console is. */
const char *console_panic(struct console *console);

#endif
