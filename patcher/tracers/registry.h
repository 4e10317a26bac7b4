/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_REGISTRY_H
#define SONDE_PATCHER_TRACERS_REGISTRY_H

#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/tracer.h"

/* "NAME[:FILTER[,FILTER...]]", as given to --trace and trace-start: "kmem", "kmem:cache,pages". */
struct trace_spec {
	const struct tracer_ops *ops;
	uint32_t filters; /* see tracer_ops.create */
};

/* -EINVAL with the nearest known name in *err if a word is unknown. */
int trace_spec_parse(const char *text, struct trace_spec *out, struct error *err);

#endif
