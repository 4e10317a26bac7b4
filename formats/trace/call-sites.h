/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_CALL_SITES_H
#define SONDE_FORMATS_TRACE_CALL_SITES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"
#include "formats/trace/sidecar.h"

/*
 * Names a call site for the sidecar. Returns 0 and fills name (NUL-terminated), the function's
 * start address and size, or -ENOENT.
 */
typedef int trace_symbolize_fn(void *arg, uint64_t address, char *name, size_t name_size,
			       uint64_t *start, uint64_t *size);

/* The call sites in a trace. Thread-safe. */
struct call_sites {
	pthread_mutex_t lock;
	struct u64_map all;
};

void call_sites_init(struct call_sites *sites);
void call_sites_deinit(struct call_sites *sites);

/*
 * Remember a call site. Beyond a bound, or without memory, it does nothing: the call site then
 * has no name. Takes a lock: not for each event.
 */
void call_sites_note(struct call_sites *sites, uint64_t call_site);

/* The functions that contain call sites, as the sidecar lists them. */
struct trace_symbols {
	struct sidecar_symbol *items;
	size_t count;
};

/*
 * Name every call site, ascending, through `symbolize`; each function comes once, call sites
 * without a name not at all. Returns 0, or -ENOMEM with *out empty.
 */
int trace_symbols_init(struct trace_symbols *out, struct call_sites *sites,
		       trace_symbolize_fn *symbolize, void *arg);
void trace_symbols_deinit(struct trace_symbols *symbols);

#endif
