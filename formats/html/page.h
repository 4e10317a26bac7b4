/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HTML_PAGE_H
#define SONDE_FORMATS_HTML_PAGE_H

#include <jansson.h>
#include "formats/export/file.h"

/*
 * The page around the data: its style, the data as JSON in an element that no browser runs, and the
 * program that shows them. Names in the data are the guest's: whatever they are, none ends the
 * element, and the page's policy lets the browser run nothing else.
 */

/* What is in front of the data, and what comes after them. 0 or -errno. */
int page_begin(struct export_file *file, char nonce[static 33]);
void page_end(struct export_file *file, const char *nonce);

/* Write a value that the data consist of, and let it go. Returns 0, or -ENOMEM, also for NULL. */
int page_put(struct export_file *file, json_t *value);

#endif
