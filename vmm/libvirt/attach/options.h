/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_LIBVIRT_ATTACH_OPTIONS_H
#define SONDE_VMM_LIBVIRT_ATTACH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/trace/writer.h"
#include "vmm/recorder/options.h"

/* The command line of `sonde attach`, parsed and range-checked. Strings are argv's. */
struct attach_options {
	const char *uri; /* NULL: libvirt's default */
	const char *domain;
	const char *kernel;
	struct trace_args traces; /* "kmem" if none was given */
	const char *output;
	unsigned int encoding;
	const char *monitor;   /* path of the socket, or NULL */
	uint64_t duration_s;   /* 0: until something else ends it */
	uint64_t until_events; /* likewise */
	uint64_t max_rate;     /* with trap: calls per second that are looked at; 0: all */
	bool trap;             /* breakpoints, not scratch memory */
	bool drop, dry_run, verbose;
};

/* As run_options_parse(): 0, or an exit status plus one. */
int attach_options_parse(int argc, char **argv, struct attach_options *options);

#endif
