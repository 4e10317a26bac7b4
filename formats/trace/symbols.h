/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_SYMBOLS_H
#define SONDE_FORMATS_TRACE_SYMBOLS_H

#include <stddef.h>
#include "formats/trace/sidecar.h"
#include "formats/trace/writer.h"
#include "formats/base/u64-map.h"

/* The functions that contain a set of call sites, as the sidecar lists them. */
struct trace_symbols {
	struct sidecar_symbol *items;
	size_t count;
};

/*
 * Name every key of the set `call_sites`, ascending, through `symbolize`; each function comes once,
 * call sites without a name not at all. Returns 0, or -ENOMEM with *out empty.
 */
int trace_symbols_init(struct trace_symbols *out, const struct u64_map *call_sites,
		       trace_symbolize_fn *symbolize, void *arg);
void trace_symbols_deinit(struct trace_symbols *symbols);

#endif
