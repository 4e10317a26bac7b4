/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_COUNT_H
#define SONDE_TESTS_LIB_COUNT_H

#include <stddef.h>
#include <string.h>

/* How often `part`, which is not empty, is in a text. */
static inline size_t count_in(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

#endif
