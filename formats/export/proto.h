/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_PROTO_H
#define SONDE_FORMATS_EXPORT_PROTO_H

#include <stdint.h>
#include <string.h>

/*
 * Protocol buffers (protobuf.dev, "Encoding"): each field is a number with a wire type, and a
 * value. All functions write at `at` and return where they end.
 */
enum { PROTO_VARINT = 0, PROTO_BYTES = 2 };
enum { PROTO_NUMBER_MAX = 20 }; /* bytes of a field that is a number */

static inline uint8_t *proto_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static inline uint8_t *proto_key(uint8_t *at, unsigned int field, unsigned int type)
{
	return proto_varint(at, (uint64_t)field << 3 | type);
}

/* A number, also a signed one that is no sint. */
static inline uint8_t *proto_number(uint8_t *at, unsigned int field, uint64_t value)
{
	return proto_varint(proto_key(at, field, PROTO_VARINT), value);
}

static inline uint8_t *proto_bytes(uint8_t *at, unsigned int field, const void *bytes, size_t size)
{
	at = proto_varint(proto_key(at, field, PROTO_BYTES), size);
	memcpy(at, bytes, size);
	return at + size;
}

static inline uint8_t *proto_text(uint8_t *at, unsigned int field, const char *text)
{
	return proto_bytes(at, field, text, strlen(text));
}

/*
 * A message in a message: its size has a fixed number of bytes in front of it, as varints may have
 * leading zeros. A small one has up to 127 bytes, a large one up to 2 MiB.
 */
enum { PROTO_SMALL = 1, PROTO_LARGE = 3 };

static inline uint8_t *proto_begin(uint8_t *at, unsigned int field, unsigned int size_bytes)
{
	return proto_key(at, field, PROTO_BYTES) + size_bytes;
}

static inline void proto_end(uint8_t *begin, const uint8_t *end, unsigned int size_bytes)
{
	size_t size = (size_t)(end - begin);

	for (unsigned int i = 1; i < size_bytes; i++, size >>= 7)
		begin[(int)i - 1 - (int)size_bytes] = (uint8_t)(size | 0x80);
	begin[-1] = (uint8_t)size;
}

#endif
