/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_GLOB_H
#define SONDE_FORMATS_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Globs as in ftrace's filters: * and ? as in a shell, [a-z] one of these characters, [!a-z] and
 * [^a-z] none of them, a backslash takes the special meaning from the next character. They match
 * the whole text. Unlike fnmatch(3), the time never exceeds the product of the two lengths.
 */
bool glob_matches(const char *glob, const char *text);

/* The first character of a glob that is wrong: '[' without ']', a backslash at the end. NULL: none.
 */
const char *glob_fault(const char *glob);

/* Number of characters in front of the first special one: all of them if the glob has none. */
size_t glob_prefix(const char *glob);

#endif
