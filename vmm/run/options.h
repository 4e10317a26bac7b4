/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RUN_OPTIONS_H
#define SONDE_VMM_RUN_OPTIONS_H

#include <stdint.h>
#include "vmm/machine/vm.h"
#include "vmm/recorder/options.h"

enum { RUN_CMDLINE_SIZE = 4096 };

/* The command line of `sonde run`, parsed and range-checked. Strings are argv's. */
struct run_options {
	struct vm_config vm;
	struct recorder_options recorder;
	uint64_t ram_bytes, nr_vcpus;   /* as given; vm has them, too */
	char cmdline[RUN_CMDLINE_SIZE]; /* vm.boot.cmdline points here */
};

/* Returns 0, or an exit status plus one (one line has been printed): 1 + CLI_OK after --help,
 * 1 + CLI_USAGE. */
int run_options_parse(int argc, char **argv, struct run_options *options);

#endif
