/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_CMD_H
#define SONDE_GUEST_SYMBOLS_CMD_H

/* The verb of this folder, sonde-symbols(1). argv[0] is the verb; returns the exit status. */
int cmd_symbols(int argc, char **argv);

#endif
