/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TERMINAL_MODES_H
#define SONDE_VMM_TERMINAL_MODES_H

#include <stdbool.h>
#include "formats/base/error.h"

/* The modes that a terminal has before this program changes them. One terminal per process at a
 * time. */

/*
 * Keep the modes of the terminal at `fd` until terminal_modes_restore(), which also runs at exit()
 * and on signals that end the process, if they have their default action at the first call.
 * `leave`, unless NULL, is called each time that they are restored. -errno if they cannot be read.
 */
typedef void terminal_leave_fn(void);
int terminal_modes_keep(int fd, terminal_leave_fn *leave, struct error *err);
/* Async-signal-safe if `leave` is; does nothing if no modes are kept. */
void terminal_modes_restore(void);
bool terminal_modes_are_kept(void);

#endif
