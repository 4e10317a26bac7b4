/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_CALLERS_H
#define SONDE_FORMATS_HEAP_CALLERS_H

#include "formats/base/u64-map.h"
#include "formats/event/kmem.h"
#include "formats/trace/sidecar.h"

/*
 * Who is charged with what a wrapper (site-role.h) allocates: the first frame of the event's call
 * chain, from the call site on, that is neither a wrapper's nor an allocator's; of pages also the
 * one that takes them for a slab or a large object. If the chain comes to what runs anything before
 * that, it is the outermost wrapper: an allocator's own work. If the chain ends before, or is cut,
 * the call site keeps it.
 */
struct callers {
	struct u64_map roles; /* by address of code: uint8_t, an enum site_role */
	const struct trace_instance *instance;
	bool has_chains; /* some events of this instance have */
	bool ignores_chains;
};

/* Allocates nothing. */
void callers_init(struct callers *callers);
void callers_deinit(struct callers *callers);

/* Sets *site to the call site that is charged with an allocation, which is its event's, if that is
 * another one than its own. Returns 0 or -ENOMEM. */
int callers_charge(struct callers *callers, const struct sidecar *sidecar,
		   const struct event *event, const struct kmem_record *record, uint64_t *site);

static inline int callers_find(struct callers *callers, const struct sidecar *sidecar,
			       const struct event *event, const struct kmem_record *record,
			       uint64_t *site)
{
	if (event->instance != callers->instance) {
		callers->instance = event->instance;
		callers->has_chains = !callers->ignores_chains && kmem_has_chains(event->instance);
	}
	return callers->has_chains ? callers_charge(callers, sidecar, event, record, site) : 0;
}

#endif
