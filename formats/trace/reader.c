/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A trace as its files: opened, closed, and what is known of it. */
#include "formats/trace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/read-ahead.h"
#include "formats/trace/reader-internal.h"

/* --- opening --------------------------------------------------------------------------------- */

/* Sonde 0.1 had one instance and counted by vCPU only. Counts of a damaged sidecar may be wrong. */
uint64_t trace_reader_expected(const struct trace_reader *reader, unsigned int instance,
			       unsigned int vcpu, uint64_t otherwise)
{
	const struct sidecar *sidecar = reader->sidecar;
	const struct sidecar_instance *counts;

	if (!sidecar || !sidecar->complete || sidecar->damaged)
		return otherwise;
	if (!sidecar->nr_instances && vcpu < sidecar->nr_vcpus)
		return sidecar->vcpus[vcpu].allocs + sidecar->vcpus[vcpu].frees;
	if (instance >= sidecar->nr_instances)
		return otherwise;
	counts = &sidecar->instances[instance];
	return vcpu < counts->nr_streams ? counts->streams[vcpu].events : otherwise;
}

/* A cache that a stream defines. It goes to the sidecar when the stream's event gets to its head.
 */
struct cache_note {
	struct stream_note base;
	struct sidecar_cache cache; /* whose name is this one: */
	char name[];
};

static int note_cache(struct record_stream *stream, const struct sidecar_cache *cache)
{
	const size_t size = strlen(cache->name) + 1;
	struct cache_note *note = malloc(sizeof(*note) + size);

	if (!note)
		return -ENOMEM;
	note->cache = *cache;
	note->cache.name = memcpy(note->name, cache->name, size);
	record_stream_note(stream, &note->base);
	return 0;
}

int trace_reader_add_caches(struct trace_reader *reader, struct stream_note *notes)
{
	int ret = 0;

	for (struct stream_note *note = notes; note && reader->sidecar && !ret; note = note->next)
		ret = sidecar_add_cache(reader->sidecar, &((struct cache_note *)note)->cache);
	stream_notes_free(notes);
	return ret;
}

static int find_decoder(struct trace_reader *reader, struct error *err)
{
	const struct decoder_input input = {reader->files, note_cache};

	for (size_t i = 0; trace_decoders[i]; i++) {
		int ret = trace_decoders[i]->open(&input, &reader->decoder, err);

		if (ret)
			return ret < 0 ? ret : 0;
	}
	return error_set(err, ENOENT,
			 "not a trace: it has no file cpu0; record one with 'sonde run -o' or "
			 "'sonde attach -o'");
}

static int add_stream(struct trace_reader *reader, unsigned int instance, unsigned int vcpu,
		      struct error *err)
{
	struct merge_stream *stream = calloc(1, sizeof(*stream));
	int ret;

	if (!stream)
		return error_set(err, ENOMEM, "out of memory");
	stream->instance = instance;
	stream->number = reader->nr_streams;
	reader->streams[reader->nr_streams++] = stream;
	ret = reader->decoder->ops->add_stream(reader->decoder, instance, vcpu, &stream->decoder,
					       err);
	stream->state = stream->decoder;
	return ret;
}

/* One more than the greatest number of a vCPU that has a file, or should have one. */
static unsigned int find_vcpu_end(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = reader->sidecar;
	size_t nr_files, n = sidecar ? sidecar->nr_vcpus : 0;
	const unsigned int *files = trace_files_vcpus(reader->files, &nr_files);

	if (nr_files && files[nr_files - 1] >= n)
		n = (size_t)files[nr_files - 1] + 1;
	return n > UINT32_MAX ? UINT32_MAX : (unsigned int)n;
}

static int make_room(struct trace_reader *reader, size_t nr_streams, struct error *err)
{
	reader->streams = calloc(nr_streams + 1, sizeof(struct merge_stream *));
	reader->heap = calloc(nr_streams + 1, sizeof(struct merge_stream *));
	return reader->streams && reader->heap ? 0 : error_set(err, ENOMEM, "out of memory");
}

/*
 * A stream for each file, and for each that should be there. A lost file reads as an empty one, so
 * that its loss is noticed like any other cut. The vCPUs' first streams come first.
 */
static int add_streams(struct trace_reader *reader, struct error *err)
{
	const struct trace_decoder *decoder = reader->decoder;
	const unsigned int vcpu_end = find_vcpu_end(reader);
	int ret;

	if (vcpu_end > TRACE_MAX_STREAMS)
		return error_set(err, EINVAL, "cpu%u: more than %d vCPUs are not supported",
				 vcpu_end - 1, TRACE_MAX_STREAMS);
	reader->vcpu_end = vcpu_end;
	ret = make_room(reader, vcpu_end * decoder->nr_instances, err);
	for (unsigned int instance = 0; !ret && instance < decoder->nr_instances; instance++) {
		const char *suffix = decoder->instances[instance].suffix;

		for (unsigned int vcpu = 0; !ret && vcpu < vcpu_end; vcpu++) {
			if (trace_files_has(reader->files, vcpu, suffix) ||
			    trace_reader_expected(reader, instance, vcpu, 0))
				ret = add_stream(reader, instance, vcpu, err);
		}
	}
	return ret;
}

/* The reader owns the files from now on, also on failure. */
static int open_files(struct trace_files *files, struct trace_reader **out, struct error *err)
{
	struct trace_reader *reader = calloc(1, sizeof(*reader));
	int ret;

	if (!reader) {
		trace_files_close(files);
		return error_set(err, ENOMEM, "out of memory");
	}
	reader->files = files;
	ret = find_decoder(reader, err);
	if (!ret) {
		trace_reader_load_sidecar(reader);
		ret = add_streams(reader, err);
		/* names are written before the events that need them: so they are read later */
		trace_reader_load_names(reader);
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
	read_ahead_destroy(reader->ahead);
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

/* --- what is known of the trace -------------------------------------------------------------- */

bool trace_reader_is_unfinished(const struct trace_reader *reader)
{
	return reader->sidecar && (!reader->sidecar->complete || reader->sidecar->info.cut);
}

const struct sidecar *trace_reader_sidecar(const struct trace_reader *reader)
{
	return reader->sidecar;
}

int trace_reader_add_symbols(struct trace_reader *reader, const struct sidecar_symbol *symbols,
			     size_t n)
{
	return reader->sidecar ? sidecar_add_symbols(reader->sidecar, symbols, n) : 0;
}

void trace_reader_take_lines(struct trace_reader *reader, struct source_lines *lines)
{
	source_lines_destroy(reader->sidecar->lines);
	reader->sidecar->lines = lines;
}

const struct error *trace_reader_sidecar_error(const struct trace_reader *reader)
{
	return &reader->sidecar_error;
}

unsigned int trace_reader_vcpu_end(const struct trace_reader *reader)
{
	return reader->vcpu_end;
}

size_t trace_reader_nr_streams(const struct trace_reader *reader)
{
	return reader->nr_streams;
}

size_t trace_reader_nr_vcpus(const struct trace_reader *reader)
{
	size_t n = 0;

	for (size_t i = 0; i < reader->nr_streams; i++) {
		size_t j = 0;

		while (reader->streams[j]->decoder->vcpu != reader->streams[i]->decoder->vcpu)
			j++;
		n += i == j;
	}
	return n;
}

void trace_reader_stream_info(const struct trace_reader *reader, size_t i,
			      struct trace_stream_info *out)
{
	const struct merge_stream *stream = reader->streams[i];
	const struct record_stream *state = stream->state;

	*out = (struct trace_stream_info){
		.vcpu = state->vcpu,
		.instance = &reader->decoder->instances[stream->instance],
		.suffix = reader->decoder->instances[stream->instance].suffix,
		.damages = state->damages,
		.nr_damages = state->nr_damages,
		.damaged_bytes = state->damaged_bytes,
		.fault = state->fault,
		.records = stream->index,
		.offset = stream->offset,
		.ignored = state->fault ? state->records.size - stream->offset : 0,
		.lost = state->lost,
		.expected = stream->ended ? trace_reader_expected(reader, stream->instance,
								  state->vcpu, stream->index)
					  : stream->index,
	};
}

const struct trace_instance *trace_reader_instances(const struct trace_reader *reader,
						    size_t *nr_instances)
{
	*nr_instances = reader->decoder->nr_instances;
	return reader->decoder->instances;
}

bool trace_reader_has_checksums(const struct trace_reader *reader)
{
	return reader->decoder->checksums;
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

/* Streams say at most what was lost of them. Only the sidecar says what came to no stream. */
static const char *why_unknown(const struct trace_reader *reader)
{
	if (reader->sidecar_error.code)
		return reader->sidecar_error.text;
	if (reader->sidecar->info.losses_unknown)
		return "the trace that this one was copied from does not say";
	return reader->decoder->losses_known || reader->sidecar->complete
		       ? NULL
		       : "the trace does not say";
}

/*
 * The files disagree if one of them could not be written at the end. The greatest count is the
 * latest.
 */
void trace_reader_losses(const struct trace_reader *reader, struct trace_losses *out)
{
	const struct sidecar *sidecar = reader->sidecar;
	uint64_t by_stream = 0, by_vcpu = 0;

	*out = (struct trace_losses){.unknown = why_unknown(reader), .writer = ""};
	if (sidecar) {
		out->counters = sidecar->info.counters;
		out->unfinished = trace_reader_is_unfinished(reader);
		out->recording = !sidecar->complete && reader->being_written;
		out->writer = sidecar->info.writer;
	}
	for (size_t i = 0; sidecar && i < sidecar->nr_vcpus; i++)
		by_vcpu += sidecar->vcpus[i].overruns;
	for (size_t i = 0; i < reader->nr_streams; i++)
		by_stream += reader->streams[i]->state->lost;
	raise_overruns(&out->counters, by_vcpu);
	raise_overruns(&out->counters, by_stream);
	raise_overruns(&out->counters, reader->decoder->overruns);
}

/*
 * Add the events that are missing from streams which are cut off or damaged. False: nothing says
 * how many these are. Without checksums the events that there are may be wrong, too.
 */
static bool add_cut(const struct trace_reader *reader, uint64_t *events)
{
	if (!trace_reader_cut(reader))
		return true;
	if (!reader->decoder->checksums)
		return false;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		const struct merge_stream *stream = reader->streams[i];
		const uint64_t expected =
			trace_reader_expected(reader, stream->instance, stream->state->vcpu, 0);

		if (!stream->ended || expected < stream->index ||
		    __builtin_add_overflow(*events, expected - stream->index, events))
			return false;
	}
	return true;
}

struct trace_missing trace_reader_missing(const struct trace_reader *reader)
{
	struct trace_losses losses;
	struct trace_missing missing;

	trace_reader_losses(reader, &losses);
	missing.events = counters_lost(&losses.counters);
	missing.is_bounded =
		!losses.unknown && !losses.unfinished && add_cut(reader, &missing.events);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_table[id].kind == COUNTER_GAP && losses.counters.v[id])
			missing.is_bounded = false;
	}
	return missing;
}

const char *trace_reader_note(const struct trace_reader *reader)
{
	return reader->decoder->note;
}

const char *trace_reader_damage(const struct trace_reader *reader, size_t n)
{
	const char *const all[] = {reader->decoder->damage, reader->sidecar_damage.text,
				   reader->names_damage};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (*all[i] && !n--)
			return all[i];
	return NULL;
}
