/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/event/read-ahead.h"
#include "formats/trace/decoder.h"

static const uint64_t ripe_ns = 1000000000; /* in which writers flush what they have gathered */

struct merge_stream {
	struct record_stream *decoder; /* what is decoded ahead is not to be used */
	struct record_stream begin;    /* as it was before that */
	size_t number;
	unsigned int instance; /* of the decoder's */
	struct event head;
	const struct record_stream *state; /* at the head, but for: */
	uint64_t index, offset;            /* behind it */
	bool ended;
	/* When the trace is followed: bytes of the file that were there a second ago at least, and
	 * those that will be the next time. */
	uint64_t ripe, ripening;
};

struct trace_reader {
	struct trace_files *files;
	struct trace_decoder *decoder;
	struct sidecar *sidecar; /* or NULL, sidecar_error saying why */
	struct error sidecar_error;
	struct merge_stream **streams; /* by vCPU */
	size_t nr_streams;
	unsigned int vcpu_end;
	struct merge_stream **heap; /* those not ended, the earliest head first */
	size_t heap_size;
	char names_file[64];      /* beside the sidecar */
	struct byte_source names; /* likewise; read NULL: it is not there yet */
	uint64_t names_size;      /* bytes of it that were read */
	bool has_last_names;      /* those of a sidecar that was completed meanwhile */
	bool being_written;       /* when the sidecar was read */
	bool following;           /* events that are not ripe are held back */
	bool reads_ahead;
	unsigned int nr_threads;
	struct read_ahead *ahead; /* or NULL */
	uint64_t ripening_ns;     /* since when */
	bool primed;
	bool taken; /* the event of heap[0] was handed out */
	bool cut;
};

/* --- opening --------------------------------------------------------------------------------- */

/*
 * Events that an instance's vCPU should have; `otherwise` if the sidecar does not say, or said so
 * before the end. Sonde 0.1 had one instance and counted by vCPU only.
 */
static uint64_t expected(const struct trace_reader *reader, unsigned int instance,
			 unsigned int vcpu, uint64_t otherwise)
{
	const struct sidecar *sidecar = reader->sidecar;
	const struct sidecar_instance *counts;

	if (!sidecar || !sidecar->complete)
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

static int add_caches(struct trace_reader *reader, struct stream_note *notes)
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

static bool find_names(struct trace_reader *reader)
{
	if (!reader->names.read &&
	    trace_files_source(reader->files, reader->names_file, &reader->names, NULL))
		reader->names.read = NULL;
	if (reader->names.read)
		byte_source_refresh(&reader->names);
	return reader->names.read && reader->names.size > reader->names_size &&
	       reader->names.size <= SIDECAR_MAX_SIZE;
}

/* What has come since the last time. */
static void load_more_names(struct trace_reader *reader)
{
	const uint64_t from = reader->names_size;
	int64_t used = 0;
	ssize_t size;
	char *text;

	if (!find_names(reader))
		return;
	text = malloc(reader->names.size - from);
	size = text ? byte_source_fill(&reader->names, text, reader->names.size - from, from) : 0;
	if (size > 0)
		used = sidecar_add_names(reader->sidecar, text, (size_t)size);
	if (used > 0)
		reader->names_size += (uint64_t)used;
	free(text);
}

/* A writer that ends moves the names to the sidecar; this reader may never have seen their file. */
static void load_last_names(struct trace_reader *reader)
{
	struct sidecar *last;

	if (reader->sidecar->complete || reader->has_last_names ||
	    (reader->names.read && reader->following) || sidecar_load(reader->files, &last, NULL))
		return;
	if (last->complete)
		reader->has_last_names =
			!sidecar_add_symbols(reader->sidecar, last->symbols, last->nr_symbols);
	sidecar_destroy(last);
}

/* Names are not worth an error. */
static void load_names(struct trace_reader *reader)
{
	if (!reader->sidecar)
		return;
	load_more_names(reader);
	load_last_names(reader);
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
	sidecar_names_file(name, reader->names_file, sizeof(reader->names_file));
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
			    expected(reader, instance, vcpu, 0))
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
		load_sidecar(reader);
		ret = add_streams(reader, err);
		/* names are written before the events that need them: so they are read later */
		load_names(reader);
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

/* --- merging --------------------------------------------------------------------------------- */

static bool before(const struct merge_stream *a, const struct merge_stream *b)
{
	if (a->head.ns != b->head.ns)
		return a->head.ns < b->head.ns;
	if (a->head.vcpu != b->head.vcpu)
		return a->head.vcpu < b->head.vcpu;
	return a->instance < b->instance;
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
	return stream->state->fault || is_unfinished(reader) ||
	       expected(reader, stream->instance, stream->state->vcpu, stream->index) >
		       stream->index;
}

/* Returns 1, and the event is at the head; 0, -errno. */
static int load_head(struct trace_reader *reader, struct merge_stream *stream)
{
	struct stream_note *notes;
	int ret, failed;

	if (reader->ahead) {
		struct stream_head head;

		ret = read_ahead_next(reader->ahead, stream->number, &head, &notes);
		stream->state = head.state;
		stream->index = head.index;
		stream->offset = head.offset;
		if (ret > 0)
			stream->head = head.event;
	} else {
		ret = record_stream_next(stream->decoder, &stream->head);
		notes = record_stream_take_notes(stream->decoder);
		stream->index = stream->decoder->index;
		stream->offset = stream->decoder->offset;
	}
	failed = add_caches(reader, notes);
	return failed ? failed : ret;
}

/* Load a stream's next event into its head. Returns 1, 0 at its end, -errno. */
static int advance(struct trace_reader *reader, struct merge_stream *stream, struct error *err)
{
	uint64_t damages = stream->state->nr_damages;
	int ret = load_head(reader, stream);

	if (ret < 0)
		return error_set(err, -ret, "cpu%u: byte %" PRIu64 ": %s", stream->state->vcpu,
				 stream->offset, strerror(-ret));
	reader->cut = reader->cut || stream->state->nr_damages != damages;
	if (ret == 0) {
		stream->ended = true;
		reader->cut = reader->cut || ended_short(reader, stream);
	}
	return ret;
}

static int begin_read_ahead(struct trace_reader *reader, struct error *err)
{
	struct record_stream **decoders = calloc(reader->nr_streams + 1, sizeof(*decoders));
	int ret = decoders ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < reader->nr_streams; i++) {
		struct merge_stream *stream = reader->streams[i];

		decoders[i] = stream->decoder;
		stream->begin = *stream->decoder;
		stream->state = &stream->begin;
	}
	if (!ret)
		ret = read_ahead_create(decoders, reader->nr_streams, reader->nr_threads,
					&reader->ahead);
	free(decoders);
	return ret ? error_set(err, -ret, "out of memory") : 0;
}

static int prime(struct trace_reader *reader, struct error *err)
{
	if (reader->reads_ahead && !reader->ahead && begin_read_ahead(reader, err))
		return -ENOMEM;
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

/* Whether no earlier event can come than the first one, as far as is known. */
static bool is_ripe(const struct trace_reader *reader)
{
	const struct merge_stream *first = reader->heap[0];

	return !reader->following || reader->heap_size == reader->nr_streams ||
	       first->head.offset < first->ripe;
}

int trace_reader_next(struct trace_reader *reader, struct event *event, struct error *err)
{
	int ret = reader->primed ? drop_taken(reader, err) : prime(reader, err);

	if (ret < 0)
		return ret;
	if (!reader->heap_size || !is_ripe(reader))
		return 0;
	*event = reader->heap[0]->head;
	reader->taken = true;
	return 1;
}

void trace_reader_read_ahead(struct trace_reader *reader, unsigned int nr_threads)
{
	cpu_set_t cpus;
	unsigned int spare = 0;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) > 1)
		spare = (unsigned int)CPU_COUNT(&cpus) - 1;
	reader->reads_ahead = true;
	reader->nr_threads = nr_threads == TRACE_READER_ALL_CPUS ? spare : nr_threads;
}

const struct event *trace_reader_soon(const struct trace_reader *reader)
{
	if (!reader->ahead || !reader->heap_size)
		return NULL;
	return read_ahead_soon(reader->ahead, reader->heap[0]->number);
}

/* --- following ------------------------------------------------------------------------------- */

static void ripen(struct trace_reader *reader)
{
	uint64_t now = clock_monotonic_ns();

	if (now - reader->ripening_ns < ripe_ns)
		return;
	reader->ripening_ns = now;
	for (size_t i = 0; i < reader->nr_streams; i++) {
		struct merge_stream *stream = reader->streams[i];

		stream->ripe = stream->ripening;
		stream->ripening = stream->decoder->records.size;
	}
}

/* A stream that had ended may go on. */
static int revive(struct trace_reader *reader, struct merge_stream *stream, struct error *err)
{
	int ret;

	stream->ended = false;
	ret = advance(reader, stream, err);
	if (ret > 0)
		reader->heap[reader->heap_size++] = stream;
	return ret;
}

int trace_reader_follow(struct trace_reader *reader, struct error *err)
{
	int ret;

	if (reader->reads_ahead)
		return error_set(err, EINVAL, "a trace that is read ahead cannot be followed");
	ret = reader->primed ? drop_taken(reader, err) : prime(reader, err);
	/* In this order: what a writer that ends now has written is seen. */
	reader->following = trace_files_are_being_written(reader->files);
	for (size_t i = 0; ret >= 0 && i < reader->nr_streams; i++) {
		struct merge_stream *stream = reader->streams[i];

		record_stream_resume(stream->decoder);
		if (stream->ended)
			ret = revive(reader, stream, err);
	}
	load_names(reader);
	for (size_t i = reader->heap_size / 2; i-- > 0;)
		sift_down(reader, i);
	ripen(reader);
	return ret < 0 ? ret : reader->following;
}

/* --- what is known of the trace -------------------------------------------------------------- */

const struct sidecar *trace_reader_sidecar(const struct trace_reader *reader)
{
	return reader->sidecar;
}

int trace_reader_add_symbols(struct trace_reader *reader, const struct sidecar_symbol *symbols,
			     size_t n)
{
	return reader->sidecar ? sidecar_add_symbols(reader->sidecar, symbols, n) : 0;
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
		.expected = stream->ended
				    ? expected(reader, stream->instance, state->vcpu, stream->index)
				    : stream->index,
	};
}

const struct trace_instance *trace_reader_instances(const struct trace_reader *reader,
						    size_t *nr_instances)
{
	*nr_instances = reader->decoder->nr_instances;
	return reader->decoder->instances;
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
		by_stream += reader->streams[i]->state->lost;
	raise_overruns(&out->counters, by_vcpu);
	raise_overruns(&out->counters, by_stream);
	raise_overruns(&out->counters, reader->decoder->overruns);
}

const char *trace_reader_note(const struct trace_reader *reader)
{
	return reader->decoder->note;
}
