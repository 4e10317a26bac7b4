/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/huge.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

void *huge_array(size_t n, size_t size)
{
	size_t bytes;
	void *array;

	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2)
		return NULL;
	if (bytes < HUGE_PAGE)
		return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
	bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	array = aligned_alloc(HUGE_PAGE, bytes);
	if (array)
		madvise(array, bytes, MADV_HUGEPAGE);
	return array;
}
