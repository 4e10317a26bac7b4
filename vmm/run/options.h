/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RUN_OPTIONS_H
#define SONDE_VMM_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "formats/trace/writer.h"
#include "patcher/session/session.h"
#include "vmm/recorder/options.h"
#include "vmm/machine/vm.h"

enum { RUN_CMDLINE_SIZE = 4096 };

/* The command line of `sonde run`, parsed and range-checked. Strings are argv's. */
struct run_options {
	struct vm_config vm;
	struct trace_args traces;
	struct trace_options tracing;
	uint32_t subbufs, subbuf_kib;   /* tracing.ring_bytes is their product */
	const char *output;             /* -o: the trace directory, or NULL */
	unsigned int encoding;          /* --format */
	const char *monitor;            /* path of the socket, or NULL */
	char cmdline[RUN_CMDLINE_SIZE]; /* vm.boot.cmdline points here */
};

/* Returns 0, or an exit status plus one (one line has been printed): 1 + CLI_OK after --help,
 * 1 + CLI_USAGE. */
int run_options_parse(int argc, char **argv, struct run_options *options);

#endif
