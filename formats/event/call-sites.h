/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_CALL_SITES_H
#define SONDE_FORMATS_EVENT_CALL_SITES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/u64-map.h"

/* The call sites in a trace, in the order in which they first came. Thread-safe. */
struct call_sites {
	pthread_mutex_t lock;
	struct u64_map known;
	uint64_t *all;
	size_t count, room;
	struct budget *budget; /* or NULL */
};

void call_sites_init(struct call_sites *sites, struct budget *budget);
void call_sites_deinit(struct call_sites *sites);

/*
 * Remember a call site. Beyond a bound, or without memory, it does nothing: the call site then
 * has no name. Takes a lock: not for each event.
 */
void call_sites_note(struct call_sites *sites, uint64_t call_site);

/* Copy up to `max` of them, from the one with index `from` on. Returns how many. */
size_t call_sites_get(struct call_sites *sites, size_t from, uint64_t *out, size_t max);

#endif
