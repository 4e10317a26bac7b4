/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_CLEAN_TEXT_H
#define SONDE_FORMATS_BASE_CLEAN_TEXT_H

#include <stddef.h>

/*
 * Copy a string of foreign origin, cut to size - 1 bytes, with '?' for all that is not printable
 * ASCII: terminals obey control characters, in UTF-8 too, and what is cut must stay valid UTF-8.
 */
void clean_text(char *out, size_t size, const char *in);

/*
 * Make a line of a string that is to be shown, in place: '?' for control characters, those of UTF-8
 * too. All else stays, as names of files and domains are in whatever script people write.
 */
void clean_line(char *text);

#endif
