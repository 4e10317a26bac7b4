/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_CURSOR_H
#define SONDE_FORMATS_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A bounded reader over untrusted bytes. Reading past the end yields zeros and latches `failed`,
 * so that a parser may read a whole structure and check once. It never reads outside
 * [base, base + size). Multi-byte reads are little-endian unless `swap` is set.
 */
struct cursor {
	const uint8_t *base;
	size_t size;
	size_t pos;
	bool swap; /* the data is big-endian */
	bool failed;
};

static inline struct cursor cursor_make(const void *base, size_t size)
{
	return (struct cursor){.base = base, .size = size};
}

static inline size_t cursor_left(const struct cursor *c)
{
	return c->failed ? 0 : c->size - c->pos;
}

/* Pointer to the next n bytes and step over them; NULL (and failed) if fewer are left. */
static inline const uint8_t *cursor_bytes(struct cursor *c, size_t n)
{
	const uint8_t *p;

	if (c->failed || n > c->size - c->pos) {
		c->failed = true;
		return NULL;
	}
	p = c->base + c->pos;
	c->pos += n;
	return p;
}

static inline void cursor_seek(struct cursor *c, size_t pos)
{
	if (pos > c->size)
		c->failed = true;
	else
		c->pos = pos;
}

static inline void cursor_skip(struct cursor *c, size_t n)
{
	(void)cursor_bytes(c, n);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? *p : 0;
}

#define CURSOR_DEFINE_READ(bits)                                            \
	static inline uint##bits##_t cursor_u##bits(struct cursor *c)       \
	{                                                                   \
		const uint8_t *p = cursor_bytes(c, sizeof(uint##bits##_t)); \
		uint##bits##_t v = 0;                                       \
                                                                            \
		if (!p)                                                     \
			return 0;                                           \
		memcpy(&v, p, sizeof(v));                                   \
		return c->swap ? __builtin_bswap##bits(v) : v;              \
	}

CURSOR_DEFINE_READ(16)
CURSOR_DEFINE_READ(32)
CURSOR_DEFINE_READ(64)

/* A NUL-terminated string that lies wholly inside; NULL (and failed) otherwise. */
static inline const char *cursor_string(struct cursor *c)
{
	const uint8_t *start = c->base + c->pos;
	const uint8_t *nul = c->failed ? NULL : memchr(start, 0, c->size - c->pos);

	if (!nul) {
		c->failed = true;
		return NULL;
	}
	c->pos += (size_t)(nul - start) + 1;
	return (const char *)start;
}

#endif
