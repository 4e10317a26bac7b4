/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TRACE_SIDECAR_INTERNAL_H
#define SONDE_FORMATS_TRACE_SIDECAR_INTERNAL_H

#include <jansson.h>
#include "formats/trace/sidecar.h"

/* What sidecar-json.c (all of it) and sidecar-symbols.c (names of functions) share. */

/* The member "name", cleaned and cut, to be freed. Returns 0, -EINVAL or -ENOMEM. */
int sidecar_get_name(const json_t *object, char **out);

/*
 * Allocate *items for the array `key` (absent: empty). Sets *nr at once to what is allocated, so
 * that a half-parsed sidecar can be destroyed.
 */
int sidecar_begin_array(const json_t *root, const char *key, size_t item_size, size_t max,
			void *items, size_t *nr, const json_t **array);

/* Print the symbols as an array, a line for each. Returns 0 or -ENOMEM; errors of the stream are
 * left to ferror(). */
int sidecar_print_symbols(FILE *out, const struct sidecar *sidecar);
/* The array "symbols". Returns 0, -EINVAL or -ENOMEM. */
int sidecar_parse_symbols(const json_t *root, struct sidecar *sidecar);

#endif
