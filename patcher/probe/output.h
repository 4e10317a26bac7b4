/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_OUTPUT_H
#define SONDE_PATCHER_PROBE_OUTPUT_H

#include <stdint.h>

/* Where events go: the writer's functions (formats/trace/writer.h), or a test's. */
struct event_sink;

struct event_output {
	void (*begin)(struct event_sink *sink);
	/* `bytes` is an event of the instance's class number `class`. */
	int (*put)(struct event_sink *sink, unsigned int class, int64_t ns, const void *bytes);
	void (*end)(struct event_sink *sink);
};

#endif
