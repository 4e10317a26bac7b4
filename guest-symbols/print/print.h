/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_PRINT_PRINT_H
#define SONDE_GUEST_SYMBOLS_PRINT_PRINT_H

#include "guest-symbols/image/kernel-image.h"

/* The two outputs of sonde-symbols(1); both return an exit status. `names` is NULL-terminated and
 * may be empty: each is looked up, all its symbols shown; in JSON with "found" false if there is
 * none. */
int symbols_print_text(const struct kernel_file *file, const struct kernel_image *image,
		       char *const *names);
int symbols_print_json(const struct kernel_file *file, const struct kernel_image *image,
		       char *const *names);

/* "bzImage" or "vmlinux"; "6fd3..." */
const char *symbols_format_name(const struct kernel_file *file);
enum { BUILD_ID_TEXT = 2 * 32 + 1 };
void symbols_build_id(const struct kernel_image *image, char text[BUILD_ID_TEXT]);

/* "alloc", "free", "alloc-bulk", "free-bulk" */
const char *symbols_action_name(enum alloc_action action);

#endif
