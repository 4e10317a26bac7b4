/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_HAND_OVER_H
#define SONDE_FORMATS_BASE_HAND_OVER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/*
 * For what a thread writes once, and one on another CPU reads: a ring of batches. A store to a line
 * that the other CPU still has in its cache waits for it, 20 ns on a virtual machine; these stores
 * go past the caches, which takes 3 ns, and reading takes no longer.
 */

/* Copy `size` bytes, a multiple of 8, to a place that is aligned to 8. */
static inline void hand_over_copy(void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
	long long *word = to;

#pragma GCC unroll 8
	for (size_t i = 0; i < size / sizeof(*word); i++) {
		long long value;

		memcpy(&value, (const char *)from + i * sizeof(value), sizeof(value));
		_mm_stream_si64(&word[i], value);
	}
#else
	memcpy(to, from, size);
#endif
}

/* Before the other thread is told that it can read what was copied. */
static inline void hand_over_fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

#endif
