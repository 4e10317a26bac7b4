/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_CMD_H
#define SONDE_GUEST_SYMBOLS_CMD_H

#include "formats/trace/reader.h"

/* The verbs of this folder, sonde-VERB(1). argv[0] is the verb; they return the exit status. */
int cmd_symbols(int argc, char **argv);
int cmd_probes(int argc, char **argv);

/* How the verbs of formats/ read a kernel image (formats/trace/reader.h). */
kernel_functions_fn kernel_functions;
/* How they read debug information. */
source_lines_open_fn kernel_lines;

#endif
