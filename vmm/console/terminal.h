/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_TERMINAL_H
#define SONDE_VMM_CONSOLE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "vmm/devices/device.h"
#include "vmm/loop/event-loop.h"

/* The escape key, Ctrl-a, as in QEMU and screen. */
enum { TERMINAL_ESCAPE = 0x01 };

enum terminal_action {
	TERMINAL_NONE,
	TERMINAL_QUIT,    /* Ctrl-a x */
	TERMINAL_MONITOR, /* Ctrl-a c */
	TERMINAL_HELP,    /* Ctrl-a h or ? */
};

/* Splits what is typed into actions and bytes for the guest. Start with a zeroed struct. */
struct terminal_keys {
	bool escaped; /* the last byte was the escape key */
};

/*
 * Consume bytes up to and including the first action. `out` gets the guest's bytes (at most n).
 * Returns how many bytes of `in` were consumed; *action is TERMINAL_NONE if that is all of them.
 * Ctrl-a Ctrl-a and Ctrl-a a give one Ctrl-a; Ctrl-a and any other key give nothing.
 */
size_t terminal_keys_feed(struct terminal_keys *keys, const uint8_t *in, size_t n, uint8_t *out,
			  size_t *n_out, enum terminal_action *action);

/*
 * Put the terminal at `fd` into raw mode until terminal_leave_raw(), which also runs at exit() and
 * on signals that end the process, if they have their default action now. -ENOTTY if fd is no
 * terminal, or this process is in its background. One terminal per process at a time.
 */
int terminal_enter_raw(int fd, struct error *err);
/* Async-signal-safe; does nothing if not raw. */
void terminal_leave_raw(void);
bool terminal_is_raw(void);

/*
 * Feeds standard input to a console port, no faster than the port takes it. A terminal is put into
 * raw mode, and its escape keys go to `key`, also while the port is full; what is typed for the
 * guest then is kept, up to 1 KiB. Of anything else, every byte goes to the guest. The end of input
 * is no event for the guest. If this process is in the background of its terminal, nothing is read.
 */
struct terminal_input;

/* *loop and *port must outlive it. -ENOMEM, or the errors of event_loop_add_fd(). */
int terminal_input_create(struct event_loop *loop, const struct console_port *port,
			  void (*key)(void *arg, enum terminal_action action), void *arg,
			  struct terminal_input **out, struct error *err);
/* Restores the terminal. NULL-safe. */
void terminal_input_destroy(struct terminal_input *input);

#endif
