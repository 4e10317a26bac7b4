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

#define SIDECAR_COUNTS(X) \
	X(page_size)      \
	X(max_rate)

#endif
