/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_TERMINAL_H
#define SONDE_VMM_CONSOLE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/* The escape key, Ctrl-a, as in QEMU and screen. */
enum { TERMINAL_ESCAPE = 0x01 };

enum terminal_action {
	TERMINAL_NONE,
	TERMINAL_QUIT,    /* Ctrl-a x */
	TERMINAL_MONITOR, /* Ctrl-a c */
	TERMINAL_HELP,    /* Ctrl-a h or ? */
};

/* Splits what is typed into bytes for the guest and actions. Start with a zeroed struct. */
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
 * Put the terminal at `fd` into raw mode until terminal_leave_raw(), which is also called at
 * exit() and on fatal signals. -ENOTTY if fd is no terminal or we are in its background. Once per
 * process at a time.
 */
int terminal_enter_raw(int fd, struct error *err);
/* Async-signal-safe; does nothing if not raw. */
void terminal_leave_raw(void);
bool terminal_is_raw(void);

#endif
