/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_JSON_H
#define SONDE_FORMATS_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* New values. NULL: no memory. */
json_t *json_from_text(const char *text);    /* with '?' for what is not printable ASCII */
json_t *json_from_count(uint64_t count);     /* an integer, capped to INT64_MAX */
json_t *json_from_address(uint64_t address); /* "0x..." */

/*
 * Read a member of an object that is not trusted. One that is absent leaves *out alone; one of a
 * wrong type or range is -EINVAL. Returns 0 otherwise.
 */
int json_read_text(const json_t *object, const char *key, char *out,
		   size_t size); /* cleaned, cut */
int json_read_signed(const json_t *object, const char *key, int64_t *out);
int json_read_count(const json_t *object, const char *key, uint64_t *out);
int json_read_bool(const json_t *object, const char *key, bool *out);
int json_read_address(const json_t *object, const char *key, uint64_t *out);

#endif
