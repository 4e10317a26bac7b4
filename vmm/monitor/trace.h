/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_TRACE_H
#define SONDE_VMM_MONITOR_TRACE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"

/*
 * What the monitor asks of the tracer, on the main thread. All errors are one line for the user.
 */
struct monitor_trace_ops {
	/* Begin tracing `specs`; none: those that were given on the command line. */
	int (*start)(void *arg, const char *const *specs, size_t n, struct error *err);
	int (*stop)(void *arg, struct error *err);

	/*
	 * A new object, or NULL if memory is out: enabled (bool), mode, tracers (list), events,
	 * allocs, frees, lost, overruns, null_allocs, null_frees, nested, unpaired_returns,
	 * in_flight, trace_dir, sites {entry, return, refused: [{function, address, reason}]},
	 * vcpus: [{index, allocs, frees, overruns, traps}].
	 */
	json_t *(*query)(void *arg);

	/*
	 * For memsave: guest-physical address of a kernel virtual address. NULL: memsave walks the
	 * page table of a vCPU, which under KPTI may be a user process's.
	 */
	int (*translate)(void *arg, uint64_t gva, uint64_t *gpa, struct error *err);
};

#endif
