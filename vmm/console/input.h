/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_CONSOLE_INPUT_H
#define SONDE_VMM_CONSOLE_INPUT_H

#include "formats/base/error.h"
#include "vmm/loop/event-loop.h"
#include "vmm/devices/serial.h"
#include "vmm/console/terminal.h"

/*
 * Standard input to the UART, no faster than it takes it. A terminal is put into raw mode and
 * its escape keys are given to `key`; from anything else every byte goes to the guest. Its end is
 * no event for the guest. In the background of a terminal nothing is read.
 */
struct console_input;

/* `loop` and `serial` must live as long. -ENOMEM, or what event_loop_add_fd() gives. */
int console_input_create(struct event_loop *loop, struct serial *serial,
			 void (*key)(void *arg, enum terminal_action action), void *arg,
			 struct console_input **out, struct error *err);
/* Restores the terminal. NULL-safe. */
void console_input_destroy(struct console_input *input);

#endif
