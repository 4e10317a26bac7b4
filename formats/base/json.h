/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_JSON_H
#define SONDE_FORMATS_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/* New values. NULL: no memory. */
json_t *json_from_text(const char *text);    /* with '?' for what is not printable ASCII */
json_t *json_from_count(uint64_t count);     /* an integer, capped to INT64_MAX */
json_t *json_from_address(uint64_t address); /* "0x..." */

/*
 * The text of an object with a last member "crc32c", a checksum (CRC-32C, 8 hexadecimal digits) of
 * all bytes before this member's key. To be freed; NULL: no memory, or an empty object. An object
 * that is not one of many also has the member JSON_CHECKSUM_MARK: "crc32c", so that no single
 * damage can make it look like one that never had a checksum.
 */
char *json_dump_with_checksum(const json_t *object, size_t flags);
#define JSON_CHECKSUM_MARK "checksum"
/* Print this member and the object's end to the memory stream of *text and *size, which has the
 * other members and the separator. False: no memory. */
bool json_print_checksum(FILE *out, char *const *text, const size_t *size);
/* Take both members out of an object that was read from this text. Returns false if the checksum is
 * wrong, or missing though the object is marked. */
bool json_take_checksum(json_t *object, const char *text, size_t size);

/* The value, unless something could not be put into it: then it is freed. NULL-safe. */
json_t *json_if_whole(json_t *value, int failed);

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

/* Read a regular file that is not trusted, of at most `max` bytes, into a new value. -errno;
 * -EFBIG: it is larger; -EINVAL: it is no regular file, no JSON, or its checksum is wrong, and *err
 * says where. */
int json_read_file(const char *path, size_t max, json_t **out, struct error *err);

#endif
