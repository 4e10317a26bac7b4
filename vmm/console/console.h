/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_CONSOLE_H
#define SONDE_VMM_CONSOLE_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/console/terminal.h"
#include "vmm/devices/device.h"
#include "vmm/loop/event-loop.h"

/*
 * The host's end of the console. The event loop collects output and writes many bytes at once, so
 * that a byte costs the vCPU no system call. If the output's reader does not read, the port becomes
 * busy; the vCPU never waits. What the guest prints is searched for a kernel panic.
 */
struct console;

struct console_config {
	const char *path; /* output file, or NULL for standard output */
	bool discard;     /* no output anywhere */
	bool input;       /* feed standard input to the port, see terminal.h */
	/* On the event loop's thread: an escape key was typed; panic messages of the guest have
	 * ended. */
	void (*key)(void *arg, enum terminal_action action);
	void (*panic)(void *arg);
	void *arg;
};

/* *port gets the input; *loop and *port must outlive the console. Errors are for the user. */
int console_create(const struct console_config *config, struct event_loop *loop,
		   const struct console_port *port, struct console **out, struct error *err);
/* Restores the terminal. What was not flushed is lost. NULL-safe. */
void console_destroy(struct console *console);

/* Any thread: output a byte. Returns whether there is room for 16 more, a UART's FIFO full. */
bool console_put(struct console *console, uint8_t byte);

/* When the guest has stopped: write all that is left. Gives up after 2 s without progress. */
void console_flush(struct console *console);

/* Bytes lost because the guest ignored a busy port, or the output failed. */
uint64_t console_lost(struct console *console);

/* The reason of the guest's first panic message, NULL if it printed none. Valid while the console
 * is. */
const char *console_panic(struct console *console);
/*
 * The same of the last message, for a guest that has reported its panic by other means: what was
 * printed earlier may imitate one. From the first call with a message on it stays the same. On the
 * event loop's thread.
 */
const char *console_reported_panic(struct console *console);

#endif
