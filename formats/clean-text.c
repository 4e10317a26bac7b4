/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/clean-text.h"

void clean_text(char *out, size_t size, const char *in)
{
	size_t n;

	for (n = 0; in[n] && n + 1 < size; n++)
		out[n] = (char)(in[n] >= ' ' && in[n] <= '~' ? in[n] : '?');
	out[n] = '\0';
}
