/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/byte-source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_file(const struct byte_source *source, void *out, size_t size, uint64_t offset)
{
	ssize_t n;

	do
		n = pread(source->fd, out, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t read_memory(const struct byte_source *source, void *out, size_t size,
			   uint64_t offset)
{
	memcpy(out, source->base + offset, size);
	return (ssize_t)size;
}

struct byte_source byte_source_file(int fd, uint64_t size)
{
	return (struct byte_source){.read = read_file, .fd = fd, .size = size};
}

struct byte_source byte_source_memory(const void *base, uint64_t size)
{
	return (struct byte_source){.read = read_memory, .fd = -1, .base = base, .size = size};
}

void byte_source_refresh(struct byte_source *source)
{
	struct stat st;

	if (source->read == read_file && !fstat(source->fd, &st) &&
	    (uint64_t)st.st_size > source->size)
		source->size = (uint64_t)st.st_size;
}

ssize_t byte_source_fill(const struct byte_source *source, void *out, size_t size, uint64_t offset)
{
	uint8_t *bytes = out;
	size_t done = 0;

	if (offset >= source->size)
		return 0;
	if (size > source->size - offset)
		size = (size_t)(source->size - offset);
	while (done < size) {
		ssize_t n = source->read(source, bytes + done, size - done, offset + done);

		if (n < 0)
			return n;
		if (n == 0)
			break; /* the file has become shorter */
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t byte_window_peek(struct byte_window *window, const struct byte_source *source,
			 uint64_t offset, size_t size, uint8_t **bytes)
{
	uint64_t skip = offset - window->offset;
	ssize_t n;

	if (skip > window->size || window->size - skip < size) {
		n = byte_source_fill(source, window->bytes, window->capacity, offset);
		if (n < 0)
			return n;
		window->offset = offset;
		window->size = (size_t)n;
		skip = 0;
	}
	*bytes = window->bytes + skip;
	return (ssize_t)(window->size - skip);
}
