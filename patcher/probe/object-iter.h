/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_OBJECT_ITER_H
#define SONDE_PATCHER_PROBE_OBJECT_ITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"
#include "patcher/probe/capture.h"

/* Where a vCPU in a trap has the objects of a bulk operation; zeroed, there are none. */
struct object_iter {
	enum capture_items_from from; /* ITEMS_NONE, ITEMS_ARRAY, ITEMS_LISTED */
	uint64_t at;                  /* gva of the first word, or of the struct list_head */
	uint64_t count;               /* of words; at most so many of a list */
	int32_t link;                 /* offset of the list_head in each */
	bool page_orders;             /* as in struct capture_items */
	uint64_t node;                /* of a list: where the walk is, 0 = not begun */
};

/* What a capture's description of an entry means for a call with these arguments; what is kept for
 * the return is none yet. -EFAULT if a counted
 * structure cannot be read. */
int object_iter_init(struct object_iter *source, const struct kernel *kernel,
		     const struct capture_items *items, const uint64_t *args, struct error *err);

/*
 * Read on: up to `max` items, and how many in *n; 0 at the end. `pages` is for page orders.
 * -EFAULT if the guest's pointers lead nowhere; what was read before is in `to`.
 */
int object_iter_read(struct object_iter *source, const struct kernel *kernel,
		     const struct page_lookup *pages, uint64_t *to, size_t max, size_t *n,
		     struct error *err);

/* How many of `count` words at the front are not 0. */
uint64_t object_iter_filled(const struct kernel *kernel, uint64_t at, uint64_t count);

#endif
