/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_OPTIONS_H
#define SONDE_VMM_RECORDER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/cli/options.h"

enum { RECORDER_MAX_SPECS = 32 /* as many as may be traced at a time */ };

enum recorder_mode { RECORDER_EXITLESS, RECORDER_TRAP };
enum recorder_on_full { RECORDER_BLOCK, RECORDER_DROP };

/* The options of all verbs that trace. Strings are argv's. */
struct recorder_options {
	const char *specs[RECORDER_MAX_SPECS + 1]; /* NULL-terminated; each names a tracer */
	size_t nr_specs;
	const char *output;             /* the trace directory, or NULL: no trace */
	unsigned int encoding;          /* enum trace_encoding */
	unsigned int mode;              /* enum recorder_mode */
	unsigned int on_full;           /* enum recorder_on_full */
	uint64_t subbufs, subbuf_bytes; /* powers of two; 0 subbufs: as many as the specs need */
	uint64_t max_rate;              /* RECORDER_TRAP: calls traced per second; 0: no bound */
	uint64_t duration_ms;           /* 0: no limit */
	uint64_t until_events;          /* 0: no limit */
	uint64_t max_bytes;             /* of events, on the disk; 0: no limit */
	uint64_t keep_bytes;            /* of each vCPU, as a flight recorder; 0: write all */
	const char *monitor;            /* path of the socket, or NULL */
	const char *metrics;            /* path of a file, or NULL */
	uint64_t live_bytes;            /* that a heap of live memory may take; 0: none is kept */
	/* What the kernel does not have itself (guest-symbols/image/given.h), or NULL. */
	const char *system_map, *btf;
	bool verbose;
};

/* The table of these options; its offsets are those of struct recorder_options. */
extern const struct cli_option recorder_option_table[];

/* The defaults, before the command line is parsed. */
void recorder_options_init(struct recorder_options *options);

/* The size of a vCPU's ring. */
uint64_t recorder_ring_bytes(const struct recorder_options *options);

/* After parsing: check what concerns several options. 0, or CLI_USAGE with one line printed. */
int recorder_options_check(const struct recorder_options *options, const char *verb);

#endif
