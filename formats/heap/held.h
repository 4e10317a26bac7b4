/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_HELD_H
#define SONDE_FORMATS_HEAP_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/heap/heap.h"
#include "formats/trace/sidecar.h"

/* The memory that the guest holds for slab objects at one moment, and what of it is of no use. */

struct heap_held {
	uint64_t bytes;    /* of slabs, or of the blocks of large kmalloc() */
	uint64_t internal; /* of live objects in these: beyond what was requested */
	uint64_t external; /* of these: in no live object */
};

struct heap_holdings {
	const struct heap *heap;
	const struct sidecar *sidecar;
	uint64_t *internal; /* by cache */
	size_t nr_caches;
	struct heap_held large, all;
};

/* Of the heap as it is now; `sidecar` may be NULL. Both must outlive it. Returns 0 or -ENOMEM. */
int heap_holdings_find(struct heap_holdings *holdings, const struct heap *heap,
		       const struct sidecar *sidecar);
void heap_holdings_deinit(struct heap_holdings *holdings);

/* Of the caches with this name. False: the guest has no such cache. */
bool heap_holdings_of_cache(const struct heap_holdings *holdings, const char *name,
			    struct heap_held *out);

#endif
