/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/trace/decoder.h"

struct merge_stream {
	struct record_stream *decoder;
	struct trace_event head;
	bool ended;
};

struct trace_reader {
	struct trace_files *files;
	struct trace_decoder *decoder;
	struct sidecar *sidecar; /* or NULL, sidecar_error saying why */
	struct error sidecar_error;
	struct merge_stream **streams; /* by vCPU */
	size_t nr_streams;
	struct merge_stream **heap; /* those not ended, the earliest head first */
	size_t heap_size;
	bool being_written; /* when the sidecar was read */
	bool primed;
	bool taken; /* the event of heap[0] was handed out */
	bool cut;
};

/* --- opening --------------------------------------------------------------------------------- */

/* What the sidecar says of a vCPU; NULL if it may have changed afterwards. */
static const struct sidecar_vcpu *final_counts(const struct trace_reader *reader, unsigned int vcpu)
{
	const struct sidecar *sidecar = reader->sidecar;

	return sidecar && sidecar->complete && vcpu < sidecar->nr_vcpus ? &sidecar->vcpus[vcpu]
									: NULL;
}

/* Records that a vCPU's stream should have; `otherwise` if the sidecar does not say. */
static uint64_t expected(const struct trace_reader *reader, unsigned int vcpu, uint64_t otherwise)
{
	const struct sidecar_vcpu *counts = final_counts(reader, vcpu);

	return counts ? counts->allocs + counts->frees : otherwise;
}

static int add_cache(void *arg, const struct sidecar_cache *cache)
{
	struct trace_reader *reader = arg;

	return reader->sidecar ? sidecar_add_cache(reader->sidecar, cache) : 0;
}

static int find_decoder(struct trace_reader *reader, struct error *err)
{
	const struct decoder_input input = {reader->files, add_cache, reader};

	for (size_t i = 0; trace_decoders[i]; i++) {
		int ret = trace_decoders[i]->open(&input, &reader->decoder, err);

		if (ret)
			return ret < 0 ? ret : 0;
	}
	return error_set(err, EINVAL, "not a trace: its encoding is unknown");
}

static void load_sidecar(struct trace_reader *reader)
{
	const char *name = reader->decoder->ops->sidecar_name;

	/* In this order: a writer that ends now is not taken for one that was killed. */
	reader->being_written = trace_files_are_being_written(reader->files);
	if (sidecar_load(reader->files, &reader->sidecar, &reader->sidecar_error) == -ENOENT &&
	    name[0] == '.')
		error_set(&reader->sidecar_error, ENOENT, "%s is missing: copy hidden files, too",
			  name);
}

static int add_stream(struct trace_reader *reader, unsigned int vcpu, struct error *err)
{
	struct merge_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return error_set(err, ENOMEM, "out of memory");
	reader->streams[reader->nr_streams++] = stream;
	return reader->decoder->ops->add_stream(reader->decoder, vcpu, &stream->decoder, err);
}

/*
 * A stream for each file, and for each vCPU whose file should be there. A lost file reads as an
 * empty one, so that its loss is noticed like any other cut.
 */
static int add_streams(struct trace_reader *reader, struct error *err)
{
	size_t nr_files, file = 0, nr_vcpus = reader->sidecar ? reader->sidecar->nr_vcpus : 0;
	const unsigned int *files = trace_files_vcpus(reader->files, &nr_files);
	int ret = 0;

	if (nr_files && files[nr_files - 1] >= TRACE_MAX_STREAMS)
		return error_set(err, EINVAL, "cpu%u: more than %d vCPUs are not supported",
				 files[nr_files - 1], TRACE_MAX_STREAMS);
	reader->streams = calloc(nr_files + nr_vcpus, sizeof(struct merge_stream *));
	reader->heap = calloc(nr_files + nr_vcpus, sizeof(struct merge_stream *));
	if (!reader->streams || !reader->heap)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned int vcpu = 0; !ret && (file < nr_files || vcpu < nr_vcpus); vcpu++) {
		bool exists = file < nr_files && files[file] == vcpu;

		while (file < nr_files && files[file] == vcpu)
			file++;
		if (exists || expected(reader, vcpu, 0))
			ret = add_stream(reader, vcpu, err);
	}
	return ret;
}

/* The reader owns the files from now on, also on failure. */
static int open_files(struct trace_files *files, struct trace_reader **out, struct error *err)
{
	struct trace_reader *reader = calloc(1, sizeof(*reader));
	size_t nr_streams;
	int ret;

	if (!reader) {
		trace_files_close(files);
		return error_set(err, ENOMEM, "out of memory");
	}
	reader->files = files;
	trace_files_vcpus(files, &nr_streams);
	ret = nr_streams ? find_decoder(reader, err)
			 : error_set(err, ENOENT,
				     "not a trace: it has no file cpu0; record one with 'sonde run "
				     "-o' or 'sonde attach -o'");
	if (!ret) {
		load_sidecar(reader);
		ret = add_streams(reader, err);
	}
	if (ret) {
		trace_reader_close(reader);
		return ret;
	}
	*out = reader;
	return 0;
}

int trace_reader_open(const char *dir, struct trace_reader **out, struct error *err)
{
	struct trace_files *files;
	int ret = trace_files_open(dir, &files, err);

	if (!ret)
		ret = open_files(files, out, err);
	if (ret)
		error_prefix(err, "%s: ", dir);
	return ret;
}

int trace_reader_open_memory(const struct trace_memory_file *memory, size_t nr_files,
			     struct trace_reader **out, struct error *err)
{
	struct trace_files *files;
	int ret = trace_files_open_memory(memory, nr_files, &files, err);

	return ret ? ret : open_files(files, out, err);
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
	if (reader->decoder)
		reader->decoder->ops->destroy(reader->decoder);
	sidecar_destroy(reader->sidecar);
	trace_files_close(reader->files);
	free(reader);
}

/* --- merging --------------------------------------------------------------------------------- */

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

/* Whether the trace says that its last records are missing. */
static bool is_unfinished(const struct trace_reader *reader)
{
	return reader->sidecar && (!reader->sidecar->complete || reader->sidecar->info.cut);
}

static bool ended_short(const struct trace_reader *reader, const struct merge_stream *stream)
{
	const struct record_stream *decoder = stream->decoder;

	return decoder->fault || is_unfinished(reader) ||
	       expected(reader, decoder->vcpu, decoder->index) > decoder->index;
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
 * Advance the stream of the last event only now: while the caller works on the last event before
 * a cut, trace_reader_cut() must be false.
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

/* --- what is known of the trace -------------------------------------------------------------- */

const struct sidecar *trace_reader_sidecar(const struct trace_reader *reader)
{
	return reader->sidecar;
}

const struct error *trace_reader_sidecar_error(const struct trace_reader *reader)
{
	return &reader->sidecar_error;
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
		.lost = decoder->lost,
		.expected = stream->ended ? expected(reader, decoder->vcpu, decoder->index)
					  : decoder->index,
	};
}

bool trace_reader_cut(const struct trace_reader *reader)
{
	return reader->cut;
}

static void raise_overruns(struct trace_counters *counters, uint64_t overruns)
{
	if (overruns > counters->v[COUNTER_OVERRUNS])
		counters->v[COUNTER_OVERRUNS] = overruns;
}

/*
 * The files disagree if one of them could not be written at the end. The greatest count is the
 * latest.
 */
void trace_reader_losses(const struct trace_reader *reader, struct trace_losses *out)
{
	const struct sidecar *sidecar = reader->sidecar;
	uint64_t by_stream = 0, by_vcpu = 0;

	*out = (struct trace_losses){.known = reader->decoder->losses_known, .writer = ""};
	if (sidecar) {
		out->known = out->known || sidecar->complete;
		out->counters = sidecar->info.counters;
		out->unfinished = is_unfinished(reader);
		out->recording = !sidecar->complete && reader->being_written;
		out->writer = sidecar->info.writer;
	}
	for (size_t i = 0; sidecar && i < sidecar->nr_vcpus; i++)
		by_vcpu += sidecar->vcpus[i].overruns;
	for (size_t i = 0; i < reader->nr_streams; i++)
		by_stream += reader->streams[i]->decoder->lost;
	raise_overruns(&out->counters, by_vcpu);
	raise_overruns(&out->counters, by_stream);
	raise_overruns(&out->counters, reader->decoder->overruns);
}

const char *trace_reader_note(const struct trace_reader *reader)
{
	return reader->decoder->note;
}
