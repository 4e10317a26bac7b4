/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/ctf/metadata.h"
#include "formats/ctf/stream.h"
#include "formats/kmemtrace/stream.h"
#include "formats/trace/dir.h"

struct merge_stream {
	struct record_stream *decoder;
	struct trace_event head;
	bool ended;
};

struct trace_reader {
	struct trace_dir dir;          /* dir.fd is -1 when reading memory */
	struct merge_stream **streams; /* by vCPU */
	size_t nr_streams;
	struct merge_stream **heap; /* those not ended, the earliest head first */
	size_t heap_size;
	bool primed;
	bool taken; /* the event of heap[0] was handed out */
	bool cut;
};

static int new_reader(size_t nr_streams, struct trace_reader **out)
{
	struct trace_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	trace_dir_init(&reader->dir);
	*out = reader;
	reader->streams = calloc(nr_streams + 1, sizeof(struct merge_stream *));
	reader->heap = calloc(nr_streams + 1, sizeof(struct merge_stream *));
	return reader->streams && reader->heap ? 0 : -ENOMEM;
}

static int add_cache(void *arg, const struct sidecar_cache *cache)
{
	struct trace_reader *reader = arg;

	return reader->dir.sidecar ? sidecar_add_cache(reader->dir.sidecar, cache) : 0;
}

static int add_stream(struct trace_reader *reader, unsigned int vcpu, struct byte_source records,
		      struct byte_source caches)
{
	struct merge_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	reader->streams[reader->nr_streams++] = stream;
	if (reader->dir.ctf)
		return ctf_stream_create(vcpu, records, &reader->dir.identity, add_cache, reader,
					 &stream->decoder);
	return kmemtrace_stream_create(vcpu, records, caches, &stream->decoder);
}

static int failed_open(struct trace_reader *reader, int ret, struct error *err)
{
	trace_reader_close(reader);
	return ret == -ENOMEM ? error_set(err, ENOMEM, "out of memory") : ret;
}

int trace_reader_open(const char *dir, struct trace_reader **out, struct error *err)
{
	struct trace_reader *reader = NULL;
	struct trace_dir files;
	int ret = trace_dir_open(dir, &files, err);

	if (ret)
		return ret;
	ret = new_reader(files.nr_streams, &reader);
	if (!reader) {
		trace_dir_close(&files);
		return failed_open(NULL, ret, err);
	}
	reader->dir = files;
	for (size_t i = 0; !ret && i < files.nr_streams; i++) {
		const struct trace_dir_stream *stream = &files.streams[i];

		ret = add_stream(reader, stream->vcpu,
				 byte_source_file(stream->records_fd, stream->records_size),
				 byte_source_file(stream->caches_fd, stream->caches_size));
	}
	if (ret)
		return failed_open(reader, ret, err);
	*out = reader;
	return 0;
}

static int add_memory(struct trace_reader *reader, const struct trace_memory_stream *streams,
		      size_t nr_streams)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < nr_streams; i++)
		ret = add_stream(reader, streams[i].vcpu,
				 byte_source_memory(streams[i].records, streams[i].records_size),
				 byte_source_memory(streams[i].caches, streams[i].caches_size));
	return ret;
}

int trace_reader_open_memory(const struct trace_memory *memory, struct trace_reader **out,
			     struct error *err)
{
	struct trace_reader *reader = NULL;
	int ret = new_reader(memory->nr_streams, &reader);

	if (!ret && memory->metadata) {
		reader->dir.ctf = true;
		ret = ctf_metadata_parse(memory->metadata, memory->metadata_size,
					 &reader->dir.identity, err);
	}
	if (!ret)
		ret = add_memory(reader, memory->streams, memory->nr_streams);
	if (ret)
		return failed_open(reader, ret, err);
	*out = reader;
	return 0;
}

void trace_reader_close(struct trace_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		record_stream_destroy(reader->streams[i]->decoder);
		free(reader->streams[i]);
	}
	free(reader->streams);
	free(reader->heap);
	trace_dir_close(&reader->dir);
	free(reader);
}

static bool before(const struct merge_stream *a, const struct merge_stream *b)
{
	if (a->head.record.timestamp != b->head.record.timestamp)
		return a->head.record.timestamp < b->head.record.timestamp;
	return a->head.vcpu < b->head.vcpu;
}

static void sift_down(struct trace_reader *reader, size_t i)
{
	struct merge_stream **heap = reader->heap;

	for (;;) {
		size_t child = 2 * i + 1;
		struct merge_stream *parent = heap[i];

		if (child + 1 < reader->heap_size && before(heap[child + 1], heap[child]))
			child++;
		if (child >= reader->heap_size || !before(heap[child], parent))
			return;
		heap[i] = heap[child];
		heap[child] = parent;
		i = child;
	}
}

static bool ended_short(const struct trace_reader *reader, const struct merge_stream *stream)
{
	const struct record_stream *decoder = stream->decoder;

	return decoder->fault || trace_dir_unfinished(&reader->dir) ||
	       trace_dir_expected(&reader->dir, decoder->vcpu, decoder->index) > decoder->index;
}

/* Load a stream's next event into its head. Returns 1, 0 at its end, -errno. */
static int advance(struct trace_reader *reader, struct merge_stream *stream, struct error *err)
{
	int ret = record_stream_next(stream->decoder, &stream->head);

	if (ret < 0)
		return error_set(err, -ret, "cpu%u: byte %" PRIu64 ": %s", stream->decoder->vcpu,
				 stream->decoder->offset, strerror(-ret));
	if (ret == 0) {
		stream->ended = true;
		reader->cut = reader->cut || ended_short(reader, stream);
	}
	return ret;
}

static int prime(struct trace_reader *reader, struct error *err)
{
	for (size_t i = 0; i < reader->nr_streams; i++) {
		int ret = advance(reader, reader->streams[i], err);

		if (ret < 0)
			return ret;
		if (ret)
			reader->heap[reader->heap_size++] = reader->streams[i];
	}
	for (size_t i = reader->heap_size / 2; i-- > 0;)
		sift_down(reader, i);
	reader->primed = true;
	return 0;
}

/*
 * The stream of the last event is advanced only now, so that trace_reader_cut() is false while its
 * caller still looks at the last event before a cut.
 */
static int drop_taken(struct trace_reader *reader, struct error *err)
{
	int ret;

	if (!reader->taken)
		return 0;
	ret = advance(reader, reader->heap[0], err);
	if (ret < 0)
		return ret;
	if (ret == 0)
		reader->heap[0] = reader->heap[--reader->heap_size];
	reader->taken = false;
	if (reader->heap_size)
		sift_down(reader, 0);
	return 0;
}

int trace_reader_next(struct trace_reader *reader, struct trace_event *event, struct error *err)
{
	int ret = reader->primed ? drop_taken(reader, err) : prime(reader, err);

	if (ret < 0)
		return ret;
	if (!reader->heap_size)
		return 0;
	*event = reader->heap[0]->head;
	reader->taken = true;
	return 1;
}

const struct sidecar *trace_reader_sidecar(const struct trace_reader *reader)
{
	return reader->dir.sidecar;
}

const struct error *trace_reader_sidecar_error(const struct trace_reader *reader)
{
	return &reader->dir.sidecar_error;
}

size_t trace_reader_nr_streams(const struct trace_reader *reader)
{
	return reader->nr_streams;
}

void trace_reader_stream_info(const struct trace_reader *reader, size_t i,
			      struct trace_stream_info *out)
{
	const struct merge_stream *stream = reader->streams[i];
	const struct record_stream *decoder = stream->decoder;

	*out = (struct trace_stream_info){
		.vcpu = decoder->vcpu,
		.fault = decoder->fault,
		.records = decoder->index,
		.offset = decoder->offset,
		.ignored = decoder->fault ? decoder->records.size - decoder->offset : 0,
		.discarded = decoder->discarded,
		.expected = stream->ended ? trace_dir_expected(&reader->dir, decoder->vcpu,
							       decoder->index)
					  : decoder->index,
	};
}

bool trace_reader_cut(const struct trace_reader *reader)
{
	return reader->cut;
}

void trace_reader_losses(const struct trace_reader *reader, struct trace_losses *out)
{
	uint64_t discarded = 0;

	for (size_t i = 0; i < reader->nr_streams; i++)
		discarded += reader->streams[i]->decoder->discarded;
	trace_dir_losses(&reader->dir, discarded, out);
}

uint64_t trace_reader_abi_version(const struct trace_reader *reader)
{
	return reader->dir.abi_version;
}
