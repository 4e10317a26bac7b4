/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_SEARCH_H
#define SONDE_FORMATS_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/*
 * Of n numbers in ascending order, how many are at most `key`: the last of them, if any, is the
 * one before the result. value(arg, i) is number i, 0 <= i < n.
 */
static inline size_t search_above(size_t n, uint64_t key,
				  uint64_t (*value)(const void *arg, size_t i), const void *arg)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (value(arg, middle) <= key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
