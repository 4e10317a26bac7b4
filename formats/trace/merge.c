/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events of all streams of a trace, in the order of their times; also while it is written. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/clock.h"
#include "formats/event/read-ahead.h"
#include "formats/trace/reader-internal.h"

enum { SOON = 11 /* events */ };

static const uint64_t ripe_ns = 1000000000; /* in which writers flush what they have gathered */

/* --- merging --------------------------------------------------------------------------------- */

/* Whether of events at the same time, the one of stream a comes first. */
static bool is_first_of_equals(const struct merge_stream *a, const struct merge_stream *b)
{
	if (a->state->vcpu != b->state->vcpu)
		return a->state->vcpu < b->state->vcpu;
	return a->instance < b->instance;
}

static int64_t ns_of(const void *event)
{
	return *(const int64_t *)event;
}

_Static_assert(!offsetof(struct stream_event, ns) && !offsetof(struct kmem_brief, ns), "ns_of()");

static bool before(const struct merge_stream *a, const struct merge_stream *b)
{
	if (ns_of(a->head) != ns_of(b->head))
		return ns_of(a->head) < ns_of(b->head);
	return is_first_of_equals(a, b);
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

/* A stream of a trace that is being written goes on. */
static bool ended_short(const struct trace_reader *reader, const struct merge_stream *stream)
{
	if (reader->following)
		return false;
	return stream->state->fault || trace_reader_is_unfinished(reader) ||
	       trace_reader_expected(reader, stream->instance, stream->state->vcpu, stream->index) >
		       stream->index;
}

/* An event behind which the stream has had `index` of them. */
static void set_head(struct merge_stream *stream, const struct stream_event *event, uint64_t index)
{
	stream->head = event;
	stream->index = index;
	stream->offset = event->end;
}

/* Go on by n events of the batch. Where briefs end is known of batches only. */
static void move_head(struct merge_stream *stream, size_t n)
{
	stream->left -= n;
	if (!stream->is_brief) {
		set_head(stream, (const struct stream_event *)stream->head + n, stream->index + n);
		return;
	}
	stream->head = (const struct kmem_brief *)stream->head + n;
	stream->index += n;
}

/* Returns as load_head(), and the notes before the event. */
static int load_batch(struct trace_reader *reader, struct merge_stream *stream,
		      struct stream_note **notes)
{
	struct stream_batch batch;

	read_ahead_next(reader->ahead, stream->number, &batch);
	*notes = batch.notes;
	stream->state = batch.state;
	stream->index = batch.state->index;
	stream->offset = batch.state->offset;
	if (batch.result > 0) {
		stream->is_brief = batch.briefs;
		stream->batch = batch.briefs ? (const void *)batch.briefs : batch.events;
		stream->left = batch.n - 1;
		stream->bytes = batch.bytes;
		stream->head = batch.briefs;
		if (!batch.briefs)
			set_head(stream, batch.events, batch.state->index);
	}
	return batch.result;
}

static int load_event(struct merge_stream *stream, struct stream_note **notes)
{
	struct event event;
	int ret = record_stream_next(stream->decoder, &event);

	*notes = record_stream_take_notes(stream->decoder);
	stream->index = stream->decoder->index;
	stream->offset = stream->decoder->offset;
	if (ret > 0) {
		stream->own = stream_event_of(&event, stream->offset, 0);
		stream->bytes = event.bytes;
		set_head(stream, &stream->own, stream->index);
	}
	return ret;
}

/* Returns 1, and the event is at the head; 0, -errno. */
static int load_head(struct trace_reader *reader, struct merge_stream *stream)
{
	struct stream_note *notes;
	int ret = reader->ahead ? load_batch(reader, stream, &notes) : load_event(stream, &notes);
	int failed = trace_reader_add_caches(reader, notes);

	return failed ? failed : ret;
}

/* Likewise, where the stream may have more to say than an event. */
__attribute__((cold, noinline)) static int load_news(struct trace_reader *reader,
						     struct merge_stream *stream, struct error *err)
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

/* Load a stream's next event into its head. Returns 1, 0 at its end, -errno. */
static int advance(struct trace_reader *reader, struct merge_stream *stream, struct error *err)
{
	if (!stream->left)
		return load_news(reader, stream, err);
	move_head(stream, 1);
	return 1;
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
					reader->brief, &reader->ahead);
	free(decoders);
	return ret ? error_set(err, -ret, "out of memory") : 0;
}

__attribute__((cold, noinline)) static int prime(struct trace_reader *reader, struct error *err)
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
	       first->own.end - first->own.length < first->ripe;
}

/* Returns 1, and the next event is that at the first stream's head; else as trace_reader_next(). */
static int take_next(struct trace_reader *reader, struct error *err)
{
	int ret = reader->primed ? drop_taken(reader, err) : prime(reader, err);

	if (ret < 0)
		return ret;
	if (!reader->heap_size || !is_ripe(reader))
		return 0;
	reader->taken = true;
	return 1;
}

/* What is at hand of the first stream. */
static struct trace_run first_run(const struct trace_reader *reader)
{
	const struct merge_stream *first = reader->heap[0];

	return (struct trace_run){.events = first->is_brief ? NULL : first->head,
				  .bytes = first->bytes,
				  .briefs = first->is_brief ? first->head : NULL,
				  .instance = first->state->instance,
				  .vcpu = first->state->vcpu,
				  .index = first->index - 1,
				  .n = 1,
				  .more = first->left,
				  .is_new = first->head == first->batch};
}

int trace_reader_next(struct trace_reader *reader, struct event *event, struct error *err)
{
	struct trace_run run;
	int ret = take_next(reader, err);

	if (ret <= 0)
		return ret;
	run = first_run(reader);
	*event = trace_run_event(&run, 0);
	return 1;
}

struct trace_stream_losses trace_reader_stream_losses(const struct trace_reader *reader)
{
	const struct record_stream *state = reader->heap[0]->state;

	return (struct trace_stream_losses){state->lost, state->nr_damages};
}

/* Of the streams but the first, the one whose event comes first; NULL: there is no other. */
static const struct merge_stream *second(const struct trace_reader *reader)
{
	struct merge_stream *const *heap = reader->heap;

	if (reader->heap_size < 2)
		return NULL;
	return reader->heap_size > 2 && before(heap[2], heap[1]) ? heap[2] : heap[1];
}

/* How many events of the batch behind the head come up to this time. */
static size_t count_events(const struct merge_stream *stream, int64_t last_ns)
{
	const struct stream_event *next = (const struct stream_event *)stream->head + 1;
	size_t n = 0;

	while (n < stream->left && next[n].ns <= last_ns)
		n++;
	return n;
}

static size_t count_briefs(const struct merge_stream *stream, int64_t last_ns)
{
	const struct kmem_brief *next = (const struct kmem_brief *)stream->head + 1;
	size_t n = 0;

	while (n < stream->left && next[n].ns <= last_ns)
		n++;
	return n;
}

/* How many of the first stream's events at hand come before all events of others, and `end_ns`. */
static size_t count_run(const struct trace_reader *reader, int64_t end_ns)
{
	const struct merge_stream *first = reader->heap[0], *other = second(reader);
	int64_t last_ns;

	if (ns_of(first->head) >= end_ns)
		return 1;
	last_ns = end_ns - 1;
	if (other && ns_of(other->head) <= last_ns)
		last_ns = ns_of(other->head) - !is_first_of_equals(first, other);
	return 1 + (first->is_brief ? count_briefs(first, last_ns) : count_events(first, last_ns));
}

int trace_reader_next_run(struct trace_reader *reader, int64_t end_ns, struct trace_run *run,
			  struct error *err)
{
	struct merge_stream *first;
	size_t others;
	int ret = take_next(reader, err);

	if (ret <= 0)
		return ret;
	first = reader->heap[0];
	*run = first_run(reader);
	others = count_run(reader, end_ns) - 1;
	if (!others)
		return 1;
	run->n += others;
	run->more -= others;
	move_head(first, others);
	return 1;
}

void trace_reader_read_briefs(struct trace_reader *reader, const struct trace_instance *instance)
{
	reader->brief = instance;
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

const struct kmem_record *trace_reader_soon(const struct trace_reader *reader)
{
	struct trace_run run;
	struct event event;

	if (!reader->heap_size)
		return NULL;
	run = first_run(reader);
	if (run.more <= SOON)
		return NULL;
	event = trace_run_event(&run, 1 + SOON);
	return kmem_record_in(&event);
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
	/* In this order: what a writer that ends now has written is seen. */
	reader->following = trace_files_are_being_written(reader->files);
	trace_reader_reload_sidecar(reader);
	ret = reader->primed ? drop_taken(reader, err) : prime(reader, err);
	for (size_t i = 0; ret >= 0 && i < reader->nr_streams; i++) {
		struct merge_stream *stream = reader->streams[i];

		record_stream_resume(stream->decoder);
		if (stream->ended)
			ret = revive(reader, stream, err);
	}
	trace_reader_load_names(reader);
	for (size_t i = reader->heap_size / 2; i-- > 0;)
		sift_down(reader, i);
	ripen(reader);
	return ret < 0 ? ret : reader->following;
}

/* How many of its events were handed out: one that waits in the heap was not. */
static uint64_t nr_taken(const struct trace_reader *reader, const struct merge_stream *stream)
{
	const bool taken = reader->taken && reader->heap[0] == stream;

	return stream->index - (reader->primed && !stream->ended && !taken);
}

/* The same stream of another reader; NULL: it has none. */
static const struct merge_stream *find_same(const struct trace_reader *reader,
					    const struct merge_stream *stream, const char *suffix)
{
	const struct trace_instance *instances = reader->decoder->instances;

	for (size_t i = 0; i < reader->nr_streams; i++) {
		const struct merge_stream *same = reader->streams[i];

		if (same->decoder->vcpu == stream->decoder->vcpu &&
		    !strcmp(instances[same->instance].suffix, suffix))
			return same;
	}
	return NULL;
}

int trace_reader_skip(struct trace_reader *reader, const struct trace_reader *former,
		      struct error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < reader->nr_streams; i++) {
		struct merge_stream *stream = reader->streams[i];
		const char *suffix = reader->decoder->instances[stream->instance].suffix;
		const struct merge_stream *same = find_same(former, stream, suffix);
		const uint64_t n = same ? nr_taken(former, same) : 0;

		for (ret = 1; ret > 0 && stream->index < n;)
			ret = advance(reader, stream, err);
	}
	return ret < 0 ? ret : 0;
}
