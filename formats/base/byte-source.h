/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_BYTE_SOURCE_H
#define SONDE_FORMATS_BASE_BYTE_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a stream's bytes come from: a file or memory. */
struct byte_source {
	/* As pread(2), without EINTR: bytes read, 0 at the end, -errno. */
	ssize_t (*read)(const struct byte_source *source, void *out, size_t size, uint64_t offset);
	int fd;
	const uint8_t *base;
	uint64_t size; /* known in advance; the source ends there */
};

/* A regular file of which `size` bytes are of interest; fd stays the caller's. */
struct byte_source byte_source_file(int fd, uint64_t size);
struct byte_source byte_source_memory(const void *base, uint64_t size);

/* A file may have grown: look at its size again. */
void byte_source_refresh(struct byte_source *source);

/*
 * Fill `out` from `offset` on, as far as the source goes. Returns the number of bytes, less than
 * `size` only at the end, or -errno.
 */
ssize_t byte_source_fill(const struct byte_source *source, void *out, size_t size, uint64_t offset);

/*
 * A buffer that holds a part of a source. The caller owns `bytes`, sets `capacity`, and zeroes
 * the rest.
 */
struct byte_window {
	uint8_t *bytes;
	size_t capacity;
	uint64_t offset; /* of the part in the source */
	size_t size;     /* bytes of the part */
};

/*
 * Read at least `size` bytes from `offset` on into the window, or as many as the source has; at
 * most `capacity`. *bytes points at them until the next call. Returns their number, or -errno.
 */
ssize_t byte_window_peek(struct byte_window *window, const struct byte_source *source,
			 uint64_t offset, size_t size, uint8_t **bytes);

#endif
