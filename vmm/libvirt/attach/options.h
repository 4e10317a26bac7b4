/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_ATTACH_OPTIONS_H
#define SONDE_VMM_LIBVIRT_ATTACH_OPTIONS_H

#include "vmm/recorder/options.h"

/* The command line of `sonde attach`, parsed and range-checked. Strings are argv's. */
struct attach_options {
	const char *uri; /* NULL: libvirt's default */
	const char *domain;
	const char *kernel;
	bool dry_run;
	struct recorder_options recorder; /* with "kmem" if no --trace was given */
};

/* Returns 0, or an exit status plus one (one line has been printed): 1 + CLI_OK after --help,
 * 1 + CLI_USAGE. */
int attach_options_parse(int argc, char **argv, struct attach_options *options);

#endif
