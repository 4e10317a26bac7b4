/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_RECORDER_OPTIONS_H
#define SONDE_VMM_RECORDER_OPTIONS_H

#include <stddef.h>

enum { TRACE_ARGS_MAX = 16 };

/* What --trace was given, in order: argv's strings, not interpreted here. */
struct trace_args {
	const char *specs[TRACE_ARGS_MAX + 1]; /* NULL-terminated */
	size_t n;
};

/* One more. 0 or CLI_USAGE, having said that there are too many. */
int trace_args_add(struct trace_args *args, const char *verb, const char *spec);

#endif
