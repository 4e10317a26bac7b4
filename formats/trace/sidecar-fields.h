/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_SIDECAR_FIELDS_H
#define SONDE_FORMATS_TRACE_SIDECAR_FIELDS_H

/*
 * The members of struct trace_info by their JSON type: each is a key of the sidecar of the same
 * name. Shared by its writer and its parser, so that neither can miss one.
 */
#define SIDECAR_STRINGS(X) \
	X(tool_version)    \
	X(mode)            \
	X(memory)          \
	X(tracers)         \
	X(banner)          \
	X(build_id)        \
	X(symbol_source)   \
	X(clock)           \
	X(ended)

#define SIDECAR_SIGNED(X)      \
	X(virt_slide)          \
	X(started_realtime_ns) \
	X(started_ns)

#define SIDECAR_BOOLS(X)         \
	X(from_first_allocation) \
	X(cut)

#define SIDECAR_COUNTS(X)    \
	X(page_size)         \
	X(null_allocs)       \
	X(null_frees)        \
	X(nested)            \
	X(unpaired_returns)  \
	X(in_flight)         \
	X(lost)              \
	X(pauses)            \
	X(yields)            \
	X(yielded_ns)        \
	X(yielded_functions) \
	X(max_rate)          \
	X(samplings)         \
	X(unsampled_ns)      \
	X(tracing_ns)        \
	X(traps)             \
	X(doorbells)         \
	X(ring_records)      \
	X(ring_waits)        \
	X(ring_wait_ns)

#endif
