/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_TESTS_LIB_HOSTILE_MAKE_H
#define SONDE_TESTS_LIB_HOSTILE_MAKE_H

#include <stdbool.h>

/*
 * A trace whose names are those of a hostile guest: of functions, a module, caches, threads and the
 * kernel. They try to leave HTML, JavaScript, JSON and XML, and to command a terminal. The files
 * have the control bytes themselves, which a writer of ours would not put there, and right
 * checksums. Events of kmem, function, graph and syscalls have all of the names. Aborts on failure.
 *
 * A program that obeys such a name sets the variable HOSTILE_MARK in a browser.
 */
#define HOSTILE_MARK "pwned"

void hostile_make(const char *dir);

/* Whether a text is UTF-8 without control characters but for newlines and tabs, and without
 * separators of lines. */
bool hostile_text_is_plain(const char *text);

#endif
