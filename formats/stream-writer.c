/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/stream-writer.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int create_file(int dir_fd, const char *prefix, unsigned int vcpu)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", prefix, vcpu);
	return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

int stream_writer_init(struct stream_writer *stream, int dir_fd, unsigned int vcpu)
{
	stream->written = 0;
	stream->buffered = 0;
	stream->caches_fd = -1;
	stream->records_fd = create_file(dir_fd, "cpu", vcpu);
	if (stream->records_fd >= 0)
		stream->caches_fd = create_file(dir_fd, "caches", vcpu);
	return stream->caches_fd < 0 ? -errno : 0;
}

void stream_writer_deinit(struct stream_writer *stream)
{
	if (stream->records_fd >= 0)
		close(stream->records_fd);
	if (stream->caches_fd >= 0)
		close(stream->caches_fd);
	stream->records_fd = stream->caches_fd = -1;
	stream->buffered = 0;
}

int stream_writer_append(struct stream_writer *stream, const struct kmem_record *record)
{
	if (stream->buffered == STREAM_BUFFER_RECORDS) {
		int ret = stream_writer_flush(stream);

		/* A partial success made room. */
		if (ret && stream->buffered == STREAM_BUFFER_RECORDS)
			return ret;
	}
	kmemtrace_encode(record, stream->records + stream->buffered * KMEMTRACE_RECORD_SIZE);
	stream->caches[stream->buffered] = htole16(record->cache);
	stream->buffered++;
	return 0;
}

/*
 * Write n items of `size` bytes as items first, first + 1, ... of a file. Sets *done to how many
 * whole items got there; behind them the file is cut off.
 */
static int write_items(int fd, const void *items, size_t size, size_t n, uint64_t first,
		       size_t *done)
{
	const uint8_t *bytes = items;
	size_t total = n * size, sent = 0;
	int ret = 0;

	while (sent < total && !ret) {
		ssize_t part = pwrite(fd, bytes + sent, total - sent, (off_t)(first * size + sent));

		if (part > 0)
			sent += (size_t)part;
		else if (part == 0 || errno != EINTR)
			ret = part ? -errno : -EIO;
	}
	*done = sent / size;
	if (ret && ftruncate(fd, (off_t)((first + *done) * size)))
		return -errno;
	return ret;
}

int stream_writer_flush(struct stream_writer *stream)
{
	size_t done = 0, left;
	int ret;

	if (!stream->buffered)
		return 0;
	/* The cache ids go first: those of records that then fail are simply written again. */
	ret = write_items(stream->caches_fd, stream->caches, sizeof(stream->caches[0]),
			  stream->buffered, stream->written, &done);
	if (!ret)
		ret = write_items(stream->records_fd, stream->records, KMEMTRACE_RECORD_SIZE,
				  stream->buffered, stream->written, &done);
	else
		done = 0;
	left = stream->buffered - done;
	memmove(stream->records, stream->records + done * KMEMTRACE_RECORD_SIZE,
		left * KMEMTRACE_RECORD_SIZE);
	memmove(stream->caches, stream->caches + done, left * sizeof(stream->caches[0]));
	stream->written += done;
	stream->buffered = left;
	return ret;
}

void stream_writer_drop(struct stream_writer *stream, uint64_t *allocs, uint64_t *frees)
{
	for (size_t i = 0; i < stream->buffered; i++) {
		if (stream->records[i * KMEMTRACE_RECORD_SIZE] == KMEM_EVENT_ALLOC)
			++*allocs;
		else
			++*frees;
	}
	stream->buffered = 0;
	/* Ids of records that were never written; it does no harm if this fails. */
	if (ftruncate(stream->caches_fd, (off_t)(stream->written * sizeof(stream->caches[0]))))
		return;
}
