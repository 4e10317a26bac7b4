/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/export/ftrace-stream.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>
#include "formats/base/budget.h"
#include "formats/base/fs.h"

enum {
	CHUNK_PAGES = 16,
	CHUNK_BYTES = CHUNK_PAGES * FTRACE_PAGE,
	CHUNK_HEAD = 8, /* two sizes */
	ZSTD_LEVEL = 1, /* the fastest of the usual ones */
	PAGE_HEAD = 16, /* time and commit */
	WORD = 4,
	DELTA_BITS = 27,
	MAX_WORDS = 28, /* of a record whose length is in its head */
	TIME_EXTEND = 30,
	EXTEND_BITS = 59, /* of a time that is longer */
	HEADS_MAX = 16,   /* bytes in front of a record: a time, and a length */
};

/* Flags of a page's commit, see RB_MISSED_EVENTS: events are missing before the page; their number
 * is stored behind its records. */
static const uint64_t MISSED_EVENTS = UINT64_C(1) << 31, MISSED_STORED = UINT64_C(1) << 30;

_Static_assert(PAGE_HEAD + HEADS_MAX + FTRACE_RECORD_MAX < FTRACE_PAGE, "a page holds a record");

/* --- chunks ---------------------------------------------------------------------------------- */

int ftrace_spool_init(struct ftrace_spool *spool, struct export_file *file, struct error *err)
{
	spool->packed_room = CHUNK_HEAD + ZSTD_compressBound(CHUNK_BYTES);
	spool->packed = malloc(spool->packed_room);
	spool->zstd = ZSTD_createCCtx();
	if (!spool->packed || !spool->zstd)
		return error_set(err, ENOMEM, "out of memory");
	spool->fd = export_scratch_file(file, err);
	return spool->fd < 0 ? spool->fd : 0;
}

void ftrace_spool_deinit(struct ftrace_spool *spool)
{
	if (spool->fd >= 0)
		close(spool->fd);
	ZSTD_freeCCtx(spool->zstd);
	free(spool->packed);
}

static struct ftrace_chunk *add_chunk(struct ftrace_stream *stream)
{
	if (!array_grow(&stream->chunks, sizeof(*stream->chunks), stream->nr_chunks,
			&stream->chunks_room))
		return NULL;
	return &stream->chunks[stream->nr_chunks++];
}

static int write_chunk(struct ftrace_stream *stream, struct ftrace_spool *spool)
{
	const size_t size = stream->nr_pages * FTRACE_PAGE;
	struct ftrace_chunk *chunk = add_chunk(stream);
	size_t packed, done;
	int ret;

	if (!chunk)
		return -ENOMEM;
	packed =
		ZSTD_compressCCtx(spool->zstd, spool->packed + CHUNK_HEAD,
				  spool->packed_room - CHUNK_HEAD, stream->pages, size, ZSTD_LEVEL);
	if (ZSTD_isError(packed))
		return -EIO;
	put_le32(put_le32(spool->packed, (uint32_t)packed), (uint32_t)size);
	*chunk = (struct ftrace_chunk){spool->size, (uint32_t)(packed + CHUNK_HEAD)};
	ret = file_write_at(spool->fd, spool->packed, chunk->size, spool->size, &done);
	spool->size += chunk->size;
	stream->nr_pages = 0;
	return ret;
}

/* --- pages ----------------------------------------------------------------------------------- */

static uint8_t *page_at_hand(const struct ftrace_stream *stream)
{
	return stream->pages + stream->nr_pages * FTRACE_PAGE;
}

/* As the kernel: a number for which the page has no room is left out. Returns the flags. */
static uint64_t put_missing(const struct ftrace_stream *stream, uint8_t *page)
{
	const size_t end = PAGE_HEAD + stream->used;

	if (!stream->page_lacks)
		return 0;
	if (stream->page_lacks == FTRACE_UNKNOWN || end + sizeof(uint64_t) > FTRACE_PAGE)
		return MISSED_EVENTS;
	put_le64(page + end, stream->page_lacks);
	return MISSED_EVENTS | MISSED_STORED;
}

static int end_page(struct ftrace_stream *stream, struct ftrace_spool *spool)
{
	uint8_t *page;

	if (!stream->used)
		return 0;
	page = page_at_hand(stream);
	memset(page + PAGE_HEAD + stream->used, 0, FTRACE_PAGE - PAGE_HEAD - stream->used);
	put_le64(page + sizeof(uint64_t), stream->used | put_missing(stream, page));
	stream->used = 0;
	return ++stream->nr_pages < CHUNK_PAGES ? 0 : write_chunk(stream, spool);
}

static int begin_page(struct ftrace_stream *stream, struct ftrace_spool *spool, uint64_t ns)
{
	int ret = end_page(stream, spool);

	if (ret)
		return ret;
	if (!stream->pages)
		stream->pages = malloc(CHUNK_BYTES);
	if (!stream->pages)
		return -ENOMEM;
	put_le64(page_at_hand(stream), ns);
	stream->last_ns = ns;
	stream->page_lacks = stream->lacks;
	stream->lacks = 0;
	return 0;
}

/* A time that steps back, or far forward, takes a page that says it; so do missing events. */
static bool fits(const struct ftrace_stream *stream, size_t size, uint64_t ns)
{
	return stream->used && !stream->lacks &&
	       stream->used + HEADS_MAX + size <= FTRACE_PAGE - PAGE_HEAD &&
	       ns - stream->last_ns < UINT64_C(1) << EXTEND_BITS;
}

/* What stands in front of a record: the time since the last one, and the length. */
static uint8_t *put_heads(uint8_t *at, uint64_t delta, uint32_t size)
{
	const uint64_t mask = (UINT64_C(1) << DELTA_BITS) - 1;

	if (delta > mask) {
		at = put_le32(at, (uint32_t)(TIME_EXTEND | (delta & mask) << 5));
		at = put_le32(at, (uint32_t)(delta >> DELTA_BITS));
		delta = 0;
	}
	if (size <= MAX_WORDS * WORD)
		return put_le32(at, (uint32_t)(size / WORD | delta << 5));
	at = put_le32(at, (uint32_t)(delta << 5));
	return put_le32(at, size + WORD);
}

void ftrace_stream_miss(struct ftrace_stream *stream, uint64_t events)
{
	if (__builtin_add_overflow(stream->lacks, events, &stream->lacks))
		stream->lacks = FTRACE_UNKNOWN;
}

int ftrace_stream_put(struct ftrace_stream *stream, struct ftrace_spool *spool,
		      const struct ftrace_class *layout, int64_t ns, const void *bytes)
{
	const uint64_t time = (uint64_t)ns;
	uint8_t record[FTRACE_RECORD_MAX], *records, *at;
	const uint32_t size = ftrace_put_record(layout, bytes, record);

	if (!fits(stream, size, time)) {
		int ret = begin_page(stream, spool, time);

		if (ret)
			return ret;
	}
	records = page_at_hand(stream) + PAGE_HEAD;
	at = put_heads(records + stream->used, time - stream->last_ns, size);
	memcpy(at, record, size);
	stream->used = (size_t)(at - records) + size;
	stream->last_ns = time;
	return 0;
}

/* --- the whole stream ------------------------------------------------------------------------ */

int ftrace_stream_finish(struct ftrace_stream *stream, struct ftrace_spool *spool)
{
	int ret = end_page(stream, spool);

	if (!ret && stream->nr_pages)
		ret = write_chunk(stream, spool);
	free(stream->pages);
	stream->pages = NULL;
	return ret;
}

static int copy_bytes(int fd, uint64_t offset, size_t size, struct export_file *file)
{
	while (size) {
		ssize_t n = pread(fd, export_room(file), size < EXPORT_ROOM ? size : EXPORT_ROOM,
				  (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		file->used += (size_t)n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int ftrace_stream_copy(const struct ftrace_stream *stream, const struct ftrace_spool *spool,
		       struct export_file *file)
{
	int ret = 0;

	if (!stream->nr_chunks)
		return 0;
	export_took(file, put_le32(export_room(file), (uint32_t)stream->nr_chunks));
	for (size_t i = 0; !ret && i < stream->nr_chunks; i++)
		ret = copy_bytes(spool->fd, stream->chunks[i].offset, stream->chunks[i].size, file);
	return ret;
}

void ftrace_stream_deinit(struct ftrace_stream *stream)
{
	free(stream->pages);
	free(stream->chunks);
}
