/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/clean-text.h"

void clean_text(char *out, size_t size, const char *in)
{
	size_t n;

	for (n = 0; in[n] && n + 1 < size; n++)
		out[n] = (char)(in[n] >= ' ' && in[n] <= '~' ? in[n] : '?');
	out[n] = '\0';
}

void clean_line(char *text)
{
	unsigned char *at = (unsigned char *)text;

	for (; *at; at++) {
		if (*at < ' ' || *at == 0x7f)
			*at = '?';
		/* U+0080 to U+009F (Unicode, C1 controls) */
		if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			at[0] = at[1] = '?';
	}
}
