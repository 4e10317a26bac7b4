/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/read-ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include "formats/base/thread.h"

enum {
	RING = 8,          /* batches of a stream */
	MEMORY = 16 << 20, /* of all batches */
	MIN_EVENTS = 4,    /* of a batch */
	MAX_EVENTS = 512,
	USUAL_SIZE = 64, /* bytes of an event */
	SCRATCH = 64,    /* events that are decoded before they are handed over */
	NOT_BRIEF = 64,  /* events of a batch of a source of briefs that begins with none */
	MAX_THREADS = 8,
	LINE = 64, /* of the cache */
};

/* Events that follow each other, and what the stream said when it had the first of them. */
struct batch {
	struct record_stream state;
	struct stream_note *notes;
	int result; /* 1; or what ended the stream, and there is no event */
	size_t n, most; /* events that it has, and can have */
	struct stream_event *events;
	uint8_t *bytes; /* of events; or their briefs */
	size_t used;
	bool is_brief;
};

struct source {
	struct record_stream *stream;
	/* Of its decoder: */
	struct event pending; /* decoded, but in no batch, if result > 0 */
	uint64_t pending_end; /* the stream's offset behind it */
	int result;           /* of the last record_stream_next(); 1: go on */
	bool has_pending, ended;
	bool wants_briefs;
	/* Under the lock, where there are threads: */
	size_t filled, emptied; /* batches, so far */
	/* Of the taker: */
	struct batch ring[RING];
	bool has_batch;
};

struct worker {
	struct read_ahead *ahead;
	pthread_t thread;
	pthread_cond_t room;
	size_t first; /* of its sources, which are nr_workers apart */
};

struct read_ahead {
	struct source *sources;
	size_t nr_sources;
	size_t batch_events, batch_bytes;
	struct worker workers[MAX_THREADS];
	size_t nr_workers; /* 0: the caller decodes */
	pthread_mutex_t lock;
	pthread_cond_t ready;
	size_t wanted; /* source that the taker waits for; SIZE_MAX: none */
	bool stop;
};

/* --- decoding -------------------------------------------------------------------------------- */

static void decode(struct source *s)
{
	struct record_stream *stream = s->stream;

	s->result = record_stream_next(stream, &s->pending);
	s->pending_end = stream->offset;
	s->has_pending = true;
}

/* Whether the stream has said anything since the batch began. */
static bool has_news(const struct source *s, const struct batch *batch)
{
	const struct record_stream *now = s->stream;

	return s->result <= 0 || now->notes || now->lost != batch->state.lost ||
	       now->nr_damages != batch->state.nr_damages || now->fault != batch->state.fault;
}

/* Whether another event may be too much for a batch. */
static bool is_full(const struct read_ahead *ahead, const struct batch *batch)
{
	return batch->n == batch->most || batch->used + EVENT_MAX_SIZE > ahead->batch_bytes;
}

static void add_pending(struct batch *batch, struct source *s)
{
	const size_t size = s->pending.class->size;

	memcpy(batch->bytes + batch->used, s->pending.bytes, size);
	batch->events[batch->n++] =
		stream_event_of(&s->pending, s->pending_end, (uint32_t)batch->used);
	batch->used += size;
	s->has_pending = false;
}

static struct kmem_brief *briefs_of(const struct batch *batch)
{
	return (struct kmem_brief *)(void *)batch->bytes;
}

/* Returns false if a brief has not all of it. */
static bool add_pending_brief(struct batch *batch, struct source *s)
{
	const struct event_class *class = kmem_known_class(s->pending.class);
	struct kmem_brief brief;

	if (!class || class == &kmem_classes[KMEM_CLASS_OTHER] ||
	    !kmem_brief_of(s->pending.bytes, &brief))
		return false;
	brief.ns = s->pending.ns;
	brief.class = (uint8_t)(class - kmem_classes);
	briefs_of(batch)[batch->n++] = brief;
	s->has_pending = false;
	return true;
}

/* Returns whether the batch is one of briefs. */
static bool add_first(const struct read_ahead *ahead, struct batch *batch, struct source *s)
{
	batch->most = ahead->batch_events;
	batch->is_brief = s->wants_briefs && add_pending_brief(batch, s);
	if (batch->is_brief)
		return true;
	add_pending(batch, s);
	if (s->wants_briefs && batch->most > NOT_BRIEF)
		batch->most = NOT_BRIEF;
	return false;
}

/* Events before which the stream certainly says nothing. */
static void add_run(const struct read_ahead *ahead, struct batch *batch, struct source *s)
{
	struct stream_room room = {.events = &batch->events[batch->n],
				   .n = batch->most - batch->n,
				   .bytes = batch->bytes + batch->used,
				   .size = ahead->batch_bytes - batch->used,
				   .at = (uint32_t)batch->used};

	record_stream_next_run(s->stream, &room);
	batch->n = batch->most - room.n;
	batch->used = room.at;
}

static void add_briefs(struct batch *batch, struct source *s)
{
	struct brief_room room = {.briefs = briefs_of(batch) + batch->n,
				  .n = batch->most - batch->n};

	record_stream_next_briefs(s->stream, &room);
	batch->n = batch->most - room.n;
}

/* --- handing over ----------------------------------------------------------------------------
 *
 * The thread that takes batches is mostly on another CPU. A store to a line that it still has in
 * its cache waits for it, 20 ns on a virtual machine; these stores go past the caches, which takes
 * 3 ns, and reading takes no longer.
 */

/* Copy `size` bytes, a multiple of 8, to a place that is aligned to 8. */
static void hand_over_copy(void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
	long long *word = to;

#pragma GCC unroll 8
	for (size_t i = 0; i < size / sizeof(*word); i++) {
		long long value;

		memcpy(&value, (const char *)from + i * sizeof(value), sizeof(value));
		_mm_stream_si64(&word[i], value);
	}
#else
	memcpy(to, from, size);
#endif
}

/* Before the other thread is told that it can read what was copied. */
static void hand_over_fence(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

/* Events that a thread has decoded into its cache. */
struct scratch {
	struct stream_event events[SCRATCH];
	uint8_t bytes[SCRATCH * USUAL_SIZE + EVENT_MAX_SIZE];
};

/* The first n, whose bytes end at `end` in the batch. */
static void hand_over(struct batch *batch, const struct scratch *scratch, size_t n, size_t end)
{
	hand_over_copy(&batch->events[batch->n], scratch->events, n * sizeof(*scratch->events));
	hand_over_copy(batch->bytes + batch->used, scratch->bytes, end - batch->used);
	batch->n += n;
	batch->used = end;
}

/* add_run(), for a batch that another thread takes. */
static void hand_over_runs(const struct read_ahead *ahead, struct batch *batch, struct source *s)
{
	struct scratch scratch;
	size_t n;

	do {
		const size_t events = batch->most - batch->n;
		const size_t size = ahead->batch_bytes - batch->used;

		struct stream_room room = {
			.events = scratch.events,
			.n = events < SCRATCH ? events : SCRATCH,
			.bytes = scratch.bytes,
			.size = size < sizeof(scratch.bytes) ? size : sizeof(scratch.bytes),
			.at = (uint32_t)batch->used};

		record_stream_next_run(s->stream, &room);
		n = (size_t)(room.events - scratch.events);
		hand_over(batch, &scratch, n, room.at);
	} while (n);
	hand_over_fence();
}

/* add_briefs(), likewise. */
static void hand_over_briefs(struct batch *batch, struct source *s)
{
	struct kmem_brief scratch[SCRATCH];
	size_t n;

	do {
		const size_t left = batch->most - batch->n;
		struct brief_room room = {.briefs = scratch, .n = left < SCRATCH ? left : SCRATCH};

		record_stream_next_briefs(s->stream, &room);
		n = (size_t)(room.briefs - scratch);
		hand_over_copy(briefs_of(batch) + batch->n, scratch, n * sizeof(*scratch));
		batch->n += n;
	} while (n);
	hand_over_fence();
}

/* --- batches ---------------------------------------------------------------------------------- */

/* All that comes next, as far as there is room, in briefs. */
static void fill_brief(const struct read_ahead *ahead, struct source *s, struct batch *batch)
{
	do {
		if (ahead->nr_workers)
			hand_over_briefs(batch, s);
		else
			add_briefs(batch, s);
		if (batch->n == batch->most)
			break;
		decode(s);
	} while (!has_news(s, batch) && add_pending_brief(batch, s));
}

static void fill(const struct read_ahead *ahead, struct source *s, struct batch *batch)
{
	if (!s->has_pending)
		decode(s);
	batch->n = batch->used = 0;
	batch->notes = record_stream_take_notes(s->stream);
	batch->state = *s->stream;
	batch->result = s->result;
	s->ended = s->result <= 0;
	if (s->ended)
		return;
	if (add_first(ahead, batch, s)) {
		fill_brief(ahead, s, batch);
		return;
	}
	for (;;) {
		if (ahead->nr_workers)
			hand_over_runs(ahead, batch, s);
		else
			add_run(ahead, batch, s);
		if (is_full(ahead, batch))
			break;
		decode(s);
		if (has_news(s, batch))
			break;
		add_pending(batch, s);
	}
}

/* --- threads --------------------------------------------------------------------------------- */

static bool has_room(const struct source *s)
{
	return !s->ended && s->filled - s->emptied < RING;
}

/* One of the worker's sources with room; the one that is waited for first. */
static struct source *find_work(const struct worker *worker, size_t *at)
{
	struct read_ahead *ahead = worker->ahead;
	const size_t n = ahead->nr_sources, step = ahead->nr_workers;

	if (ahead->wanted < n && ahead->wanted % step == worker->first &&
	    has_room(&ahead->sources[ahead->wanted]))
		return &ahead->sources[ahead->wanted];
	for (size_t i = worker->first; i < n; i += step) {
		*at += step;
		if (*at >= n)
			*at = worker->first;
		if (has_room(&ahead->sources[*at]))
			return &ahead->sources[*at];
	}
	return NULL;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct read_ahead *ahead = worker->ahead;
	size_t at = worker->first;

	pthread_mutex_lock(&ahead->lock);
	while (!ahead->stop) {
		struct source *s = find_work(worker, &at);

		if (!s) {
			pthread_cond_wait(&worker->room, &ahead->lock);
			continue;
		}
		pthread_mutex_unlock(&ahead->lock);
		fill(ahead, s, &s->ring[s->filled % RING]);
		pthread_mutex_lock(&ahead->lock);
		s->filled++;
		if (ahead->wanted < ahead->nr_sources && s == &ahead->sources[ahead->wanted])
			pthread_cond_signal(&ahead->ready);
	}
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

static void start_workers(struct read_ahead *ahead, size_t n)
{
	pthread_mutex_lock(&ahead->lock);
	for (size_t i = 0; i < n; i++) {
		struct worker *worker = &ahead->workers[i];

		worker->ahead = ahead;
		worker->first = i;
		pthread_cond_init(&worker->room, NULL);
		if (thread_start(&worker->thread, "sonde-reader", work, worker)) {
			pthread_cond_destroy(&worker->room);
			break;
		}
		ahead->nr_workers++;
	}
	/* They begin now, and know how many they are. */
	pthread_mutex_unlock(&ahead->lock);
}

static void stop_workers(struct read_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	ahead->stop = true;
	for (size_t i = 0; i < ahead->nr_workers; i++)
		pthread_cond_signal(&ahead->workers[i].room);
	pthread_mutex_unlock(&ahead->lock);
	for (size_t i = 0; i < ahead->nr_workers; i++) {
		pthread_join(ahead->workers[i].thread, NULL);
		pthread_cond_destroy(&ahead->workers[i].room);
	}
}

/* --- taking ---------------------------------------------------------------------------------- */

/* Give the source's batch back, and wait for its next one. */
static void next_batch(struct read_ahead *ahead, size_t i)
{
	struct source *s = &ahead->sources[i];
	struct worker *worker;

	if (!ahead->nr_workers) {
		fill(ahead, s, &s->ring[0]);
		return;
	}
	worker = &ahead->workers[i % ahead->nr_workers];
	pthread_mutex_lock(&ahead->lock);
	if (s->has_batch) {
		s->emptied++;
		/* Not for each batch: a thread that has filled all rings sleeps for a while. */
		if (s->filled - s->emptied <= RING / 2)
			pthread_cond_signal(&worker->room);
	}
	ahead->wanted = i;
	while (s->filled == s->emptied)
		pthread_cond_wait(&ahead->ready, &ahead->lock);
	ahead->wanted = SIZE_MAX;
	pthread_mutex_unlock(&ahead->lock);
}

static struct batch *batch_of(const struct read_ahead *ahead, size_t i)
{
	struct source *s = &ahead->sources[i];

	return &s->ring[ahead->nr_workers ? s->emptied % RING : 0];
}

void read_ahead_next(struct read_ahead *ahead, size_t i, struct stream_batch *out)
{
	struct source *s = &ahead->sources[i];
	struct batch *batch = batch_of(ahead, i);

	if (!s->has_batch || batch->result > 0) {
		next_batch(ahead, i);
		batch = batch_of(ahead, i);
		s->has_batch = true;
	}
	*out = (struct stream_batch){.state = &batch->state,
				     .notes = batch->notes,
				     .result = batch->result,
				     .events = batch->events,
				     .bytes = batch->bytes,
				     .briefs = batch->is_brief ? briefs_of(batch) : NULL,
				     .n = batch->n};
	batch->notes = NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static int make_ring(const struct read_ahead *ahead, struct source *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->ring[i].events = calloc(ahead->batch_events, sizeof(*s->ring[i].events));
		s->ring[i].bytes = aligned_alloc(LINE, ahead->batch_bytes);
		if (!s->ring[i].events || !s->ring[i].bytes)
			return -ENOMEM;
	}
	return 0;
}

int read_ahead_create(struct record_stream *const *streams, size_t n, unsigned int nr_threads,
		      const struct trace_instance *brief, struct read_ahead **out)
{
	struct read_ahead *ahead = calloc(1, sizeof(*ahead));
	const size_t threads = nr_threads < MAX_THREADS ? nr_threads : MAX_THREADS;
	const size_t batches = threads ? RING : 1, each = sizeof(struct stream_event) + USUAL_SIZE;
	size_t events = MEMORY / each / batches / (n ? n : 1);
	int ret = 0;

	if (!ahead)
		return -ENOMEM;
	events = events < MIN_EVENTS ? MIN_EVENTS : events;
	ahead->batch_events = events < MAX_EVENTS ? events : MAX_EVENTS;
	ahead->batch_bytes = ahead->batch_events * USUAL_SIZE + EVENT_MAX_SIZE;
	ahead->batch_bytes += -ahead->batch_bytes % LINE;
	ahead->wanted = SIZE_MAX;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->ready, NULL);
	ahead->sources = calloc(n + 1, sizeof(*ahead->sources));
	ahead->nr_sources = ahead->sources ? n : 0;
	if (!ahead->sources)
		ret = -ENOMEM;
	for (size_t i = 0; !ret && i < n; i++) {
		ahead->sources[i].stream = streams[i];
		ahead->sources[i].wants_briefs =
			streams[i]->instance == brief && streams[i]->ops->next_briefs;
		ret = make_ring(ahead, &ahead->sources[i], batches);
	}
	if (ret) {
		read_ahead_destroy(ahead);
		return ret;
	}
	start_workers(ahead, threads < n ? threads : n);
	*out = ahead;
	return 0;
}

void read_ahead_destroy(struct read_ahead *ahead)
{
	if (!ahead)
		return;
	stop_workers(ahead);
	for (size_t i = 0; i < ahead->nr_sources; i++) {
		for (size_t k = 0; k < RING; k++) {
			stream_notes_free(ahead->sources[i].ring[k].notes);
			free(ahead->sources[i].ring[k].events);
			free(ahead->sources[i].ring[k].bytes);
		}
	}
	free(ahead->sources);
	pthread_cond_destroy(&ahead->ready);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}
