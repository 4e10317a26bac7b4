/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_TABLES_THRIFT_H
#define SONDE_FORMATS_TABLES_THRIFT_H

#include "formats/tables/bytes.h"

/*
 * Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md): a structure is
 * its fields, each with a type and the distance of its number from the last one's, and a zero.
 */
enum thrift_type {
	THRIFT_TRUE = 1,
	THRIFT_FALSE = 2,
	THRIFT_I32 = 5,
	THRIFT_I64 = 6,
	THRIFT_BINARY = 8,
	THRIFT_LIST = 9,
	THRIFT_STRUCT = 12,
};

enum { THRIFT_MAX_DEPTH = 8 };

struct thrift {
	struct bytes *out;
	unsigned int depth;
	int last[THRIFT_MAX_DEPTH]; /* number of a field, by depth */
};

static inline void thrift_field(struct thrift *t, int number, enum thrift_type type)
{
	uint8_t head = (uint8_t)((unsigned int)(number - t->last[t->depth]) << 4 | type);

	bytes_put(t->out, &head, 1);
	t->last[t->depth] = number;
}

static inline void thrift_signed(struct thrift *t, int64_t value)
{
	bytes_varint(t->out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static inline void thrift_i32(struct thrift *t, int number, int32_t value)
{
	thrift_field(t, number, THRIFT_I32);
	thrift_signed(t, value);
}

static inline void thrift_i64(struct thrift *t, int number, uint64_t value)
{
	thrift_field(t, number, THRIFT_I64);
	thrift_signed(t, (int64_t)value);
}

static inline void thrift_bytes(struct thrift *t, const void *bytes, size_t size)
{
	bytes_varint(t->out, size);
	bytes_put(t->out, bytes, size);
}

static inline void thrift_binary(struct thrift *t, int number, const void *bytes, size_t size)
{
	thrift_field(t, number, THRIFT_BINARY);
	thrift_bytes(t, bytes, size);
}

static inline void thrift_text(struct thrift *t, int number, const char *text)
{
	thrift_binary(t, number, text, strlen(text));
}

/* Of n elements, which follow. */
static inline void thrift_list(struct thrift *t, int number, enum thrift_type type, size_t n)
{
	uint8_t head = (uint8_t)((n < 15 ? n : 15) << 4 | type);

	thrift_field(t, number, THRIFT_LIST);
	bytes_put(t->out, &head, 1);
	if (n >= 15)
		bytes_varint(t->out, n);
}

/* An element of a list of structures begins; or a field that is one. */
static inline void thrift_begin(struct thrift *t)
{
	t->last[++t->depth] = 0;
}

static inline void thrift_begin_field(struct thrift *t, int number)
{
	thrift_field(t, number, THRIFT_STRUCT);
	thrift_begin(t);
}

/* The structure ends, or the outermost one. */
static inline void thrift_end(struct thrift *t)
{
	bytes_put(t->out, "", 1);
	if (t->depth)
		t->depth--;
}

#endif
