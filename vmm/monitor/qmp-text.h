/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_MONITOR_QMP_TEXT_H
#define SONDE_VMM_MONITOR_QMP_TEXT_H

#include <stddef.h>

/*
 * Text of unknown origin must not command a terminal: how many bytes of a control character `text`
 * begins with (C0 and DEL 1, C1 as UTF-8 2), or 0 if it begins with something printable or its end.
 */
static inline size_t qmp_text_control(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
		return 2;
	return (c[0] && c[0] < 0x20) || c[0] == 0x7f;
}

#endif
