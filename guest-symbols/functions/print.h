/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_FUNCTIONS_PRINT_H
#define SONDE_GUEST_SYMBOLS_FUNCTIONS_PRINT_H

#include <stdbool.h>
#include "guest-symbols/image/kernel-image.h"

/*
 * Print the functions of an image that patterns stand for: their names, one per line, which is also
 * a file of patterns, and how many they are on standard error; or one JSON object. Each of
 * `operands` (NULL-terminated) is a list as in a trace spec: PATTERN or @FILE, joined by commas.
 * Returns the exit status.
 */
int functions_print(const char *verb, const struct kernel_image *image, char *const *operands,
		    bool json);

#endif
