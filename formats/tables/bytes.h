/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TABLES_BYTES_H
#define SONDE_FORMATS_TABLES_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "formats/export/proto.h"

/* Bytes that become more. Without memory they stop to, and `failed` says so. Zeroed: none. */
struct bytes {
	uint8_t *data;
	size_t used, room;
	bool failed;
};

/* Room for `size` bytes behind those that are there, which the caller adds to `used`; NULL: no
 * memory. */
static inline uint8_t *bytes_room(struct bytes *bytes, size_t size)
{
	if (bytes->room - bytes->used < size) {
		const size_t room = 2 * bytes->room + size + 64;
		uint8_t *bigger = realloc(bytes->data, room);

		if (!bigger) {
			bytes->failed = true;
			return NULL;
		}
		bytes->data = bigger;
		bytes->room = room;
	}
	return bytes->data + bytes->used;
}

static inline void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
	uint8_t *to = bytes_room(bytes, size);

	if (!to || !size)
		return;
	memcpy(to, data, size);
	bytes->used += size;
}

/* A number, in groups of seven bits, the low ones first: LEB128. */
static inline void bytes_varint(struct bytes *bytes, uint64_t value)
{
	uint8_t text[10];

	bytes_put(bytes, text, (size_t)(proto_varint(text, value) - text));
}

static inline void bytes_free(struct bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct bytes){0};
}

#endif
