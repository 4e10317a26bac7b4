/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/kmemtrace/kmemtrace.h"

/* --- one vCPU: the files cpu<n> and caches<n>, written in whole records ----------------------- */

enum { BUFFER_RECORDS = 65536 / KMEMTRACE_RECORD_SIZE };

struct kmemtrace_writer {
	struct stream_writer base;
	int records_fd, caches_fd;
	uint64_t written; /* records in the files */
	size_t buffered;
	uint8_t records[BUFFER_RECORDS * KMEMTRACE_RECORD_SIZE];
	uint16_t caches[BUFFER_RECORDS]; /* little-endian */
};

/*
 * Write n items of `size` bytes as items first, first + 1, ... of a file. Sets *done to how many
 * were written whole, and cuts the file off behind them.
 */
static int write_items(int fd, const void *items, size_t size, size_t n, uint64_t first,
		       size_t *done)
{
	int ret = file_write_at(fd, items, n * size, first * size, done);

	*done /= size;
	if (ret && ftruncate(fd, (off_t)((first + *done) * size)))
		return -errno;
	return ret;
}

static int flush(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;
	size_t done = 0, left;
	int ret;

	if (!stream->buffered)
		return 0;
	/* The cache ids go first: where their records then fail, they are written again. */
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

static int append(struct stream_writer *base, const struct kmem_record *record)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;

	if (stream->buffered == BUFFER_RECORDS) {
		int ret = flush(base);

		/* A partial success made room. */
		if (ret && stream->buffered == BUFFER_RECORDS)
			return ret;
	}
	kmemtrace_encode(record, stream->records + stream->buffered * KMEMTRACE_RECORD_SIZE);
	stream->caches[stream->buffered] = htole16(record->cache);
	stream->buffered++;
	return 0;
}

static void discard(struct stream_writer *base, uint64_t *allocs, uint64_t *frees)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;

	for (size_t i = 0; i < stream->buffered; i++) {
		if (stream->records[i * KMEMTRACE_RECORD_SIZE] == KMEM_EVENT_ALLOC)
			++*allocs;
		else
			++*frees;
	}
	stream->buffered = 0;
	/* Remove the ids of records that were never written. A failure does no harm. */
	if (ftruncate(stream->caches_fd, (off_t)(stream->written * sizeof(stream->caches[0]))))
		return;
}

static void destroy_stream(struct stream_writer *base)
{
	struct kmemtrace_writer *stream = (struct kmemtrace_writer *)base;

	if (stream->records_fd >= 0)
		close(stream->records_fd);
	if (stream->caches_fd >= 0)
		close(stream->caches_fd);
	free(stream);
}

static const struct stream_writer_ops stream_ops = {
	.append = append, .flush = flush, .discard = discard, .destroy = destroy_stream};

/* --- the trace: abi_version and total_overruns ------------------------------------------------ */

struct kmemtrace_encoder {
	struct trace_encoder base;
	int dir_fd;
};

static int create_file(int dir_fd, const char *prefix, unsigned int vcpu)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%u", prefix, vcpu);
	return output_file_create(dir_fd, name);
}

static int add_stream(struct trace_encoder *base, unsigned int vcpu, struct stream_writer **out)
{
	struct kmemtrace_encoder *encoder = (struct kmemtrace_encoder *)base;
	struct kmemtrace_writer *stream = calloc(1, sizeof(*stream));
	int ret = 0;

	if (!stream)
		return -ENOMEM;
	stream->base.ops = &stream_ops;
	stream->caches_fd = -1;
	stream->records_fd = create_file(encoder->dir_fd, "cpu", vcpu);
	if (stream->records_fd >= 0)
		stream->caches_fd = create_file(encoder->dir_fd, "caches", vcpu);
	if (stream->records_fd < 0)
		ret = stream->records_fd;
	else if (stream->caches_fd < 0)
		ret = stream->caches_fd;
	if (ret)
		destroy_stream(&stream->base);
	else
		*out = &stream->base;
	return ret;
}

/*
 * Overwrites in place, without truncating: a full disk has room for that. The number only grows,
 * so nothing of a longer one is left behind it.
 */
static int write_number(int dir_fd, const char *name, uint64_t number, struct error *err)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
	int fd = output_file_open(dir_fd, name);
	size_t done;
	int ret;

	if (fd < 0)
		return error_set(err, -fd, "%s: %s", name, strerror(-fd));
	ret = file_write_at(fd, text, (size_t)n, 0, &done);
	if (close(fd) && !ret)
		ret = -errno;
	return ret ? error_set(err, -ret, "%s: %s", name, strerror(-ret)) : 0;
}

static int describe(struct trace_encoder *base, const struct sidecar *sidecar, struct error *err)
{
	const struct kmemtrace_encoder *encoder = (struct kmemtrace_encoder *)base;
	uint64_t overruns = 0;
	int ret = write_number(encoder->dir_fd, "abi_version", KMEMTRACE_ABI_VERSION, err);

	for (size_t i = 0; i < sidecar->nr_vcpus; i++)
		overruns += sidecar->vcpus[i].overruns;
	return ret ? ret
		   : write_number(encoder->dir_fd, "total_overruns",
				  overruns * KMEMTRACE_RECORD_SIZE, err);
}

static void destroy(struct trace_encoder *base)
{
	free(base);
}

static int create(int dir_fd, struct cache_table *caches, struct trace_encoder **out)
{
	struct kmemtrace_encoder *encoder = calloc(1, sizeof(*encoder));

	(void)caches;
	if (!encoder)
		return -ENOMEM;
	encoder->base.ops = &kmemtrace_encoder;
	encoder->dir_fd = dir_fd;
	*out = &encoder->base;
	return 0;
}

const struct encoder_ops kmemtrace_encoder = {.sidecar_name = SIDECAR_NAME,
					      .create = create,
					      .add_stream = add_stream,
					      .describe = describe,
					      .destroy = destroy};
