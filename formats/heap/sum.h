/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_SUM_H
#define SONDE_FORMATS_HEAP_SUM_H

#include <stdint.h>

/* Sums of what a trace says: they stay at UINT64_MAX, or at 0, rather than wrap. Only a forged
 * trace gets there. Numbers of objects cannot. Inline, as each change of the heap needs them. */

static inline void sum_add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static inline void sum_subtract(uint64_t *sum, uint64_t value)
{
	if (__builtin_sub_overflow(*sum, value, sum))
		*sum = 0;
}

struct heap_sum {
	uint64_t objects, bytes;
};

static inline void heap_sum_add(struct heap_sum *sum, uint64_t objects, uint64_t bytes)
{
	sum->objects += objects;
	sum_add(&sum->bytes, bytes);
}

static inline void heap_sum_remove(struct heap_sum *sum, uint64_t objects, uint64_t bytes)
{
	sum->objects -= objects;
	sum_subtract(&sum->bytes, bytes);
}

#endif
