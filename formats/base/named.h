/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_NAMED_H
#define SONDE_FORMATS_BASE_NAMED_H

#include <stddef.h>
#include "formats/base/error.h"

/*
 * Of an array of *n items that begin with their name, an array of characters: keep those of this
 * name, which --name gave, and have `deinit` free what the others own. -ENOENT: there is none, and
 * *err has the names that there are.
 */
int named_keep(void *items, size_t *n, size_t item_size, void (*deinit)(void *item),
	       const char *name, struct error *err);

#endif
