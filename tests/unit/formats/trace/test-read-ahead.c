/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams that are decoded ahead, on no thread, one or several, say the same at each event as
 * streams that are decoded one event at a time: also where they are damaged, cut off, or have
 * caches that no sidecar has. Records of kmem are whole.
 */
#include <stdlib.h>
#include <string.h>
#include "formats/trace/reader.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define OLD_TRACE "tests/unit/formats/trace/data/ctf"

enum { N = 4000, DAMAGED_N = 1500, NO_SIDECAR_AT = 1 };

static const unsigned int thread_counts[] = {0, 1, 3, TRACE_READER_ALL_CPUS};

/* --- comparison ------------------------------------------------------------------------------ */

static bool same_info(const struct trace_reader *a, const struct trace_reader *b, size_t i)
{
	struct trace_stream_info x, y;

	trace_reader_stream_info(a, i, &x);
	trace_reader_stream_info(b, i, &y);
	return x.vcpu == y.vcpu && x.nr_damages == y.nr_damages &&
	       x.damaged_bytes == y.damaged_bytes && x.fault == y.fault && x.records == y.records &&
	       x.offset == y.offset && x.lost == y.lost && x.ignored == y.ignored &&
	       x.expected == y.expected &&
	       !memcmp(x.damages, y.damages,
		       sizeof(*x.damages) * (x.nr_damages < STREAM_DAMAGES_MAX
						     ? x.nr_damages
						     : STREAM_DAMAGES_MAX));
}

static bool same_state(const struct trace_reader *a, const struct trace_reader *b)
{
	const struct sidecar *x = trace_reader_sidecar(a), *y = trace_reader_sidecar(b);
	struct trace_losses lost, lost_too;
	bool same = trace_reader_cut(a) == trace_reader_cut(b) && !x == !y &&
		    (!x || x->nr_caches == y->nr_caches);

	trace_reader_losses(a, &lost);
	trace_reader_losses(b, &lost_too);
	same = same && lost.counters.v[COUNTER_OVERRUNS] == lost_too.counters.v[COUNTER_OVERRUNS];
	for (size_t i = 0; same && i < trace_reader_nr_streams(a); i++)
		same = same_info(a, b, i);
	return same;
}

/* Whether what class and time say is in the bytes of a record of kmem, too. */
static bool is_whole(const struct event *event)
{
	const struct kmem_record *record = kmem_record_in(event);
	struct kmem_record whole;

	return !record ||
	       (kmem_record_of(event, &whole) && !memcmp(record, &whole, sizeof(whole)));
}

static bool same_event(const struct event *a, const struct event *b)
{
	return a->vcpu == b->vcpu && a->ns == b->ns && a->index == b->index &&
	       a->offset == b->offset && a->class->size == b->class->size &&
	       !strcmp(a->class->name, b->class->name) &&
	       !strcmp(a->instance->name, b->instance->name) &&
	       !memcmp(a->bytes, b->bytes, a->class->size) && is_whole(a);
}

/* Returns how many events both have, or -1 if they differ. Closes both. */
static int64_t compare(struct trace_reader *plain, struct trace_reader *ahead)
{
	struct event a, b;
	int64_t n = 0;
	int ret, ret_too;

	for (;; n++) {
		ret = trace_reader_next(plain, &a, NULL);
		ret_too = trace_reader_next(ahead, &b, NULL);
		if (ret != ret_too || !same_state(plain, ahead) ||
		    (ret > 0 && !same_event(&a, &b))) {
			n = -1;
			break;
		}
		if (ret <= 0)
			break;
	}
	trace_reader_close(plain);
	trace_reader_close(ahead);
	return n;
}

/* How many events a run begins with that are the next ones of another reader. */
static size_t count_same(const struct trace_run *run, struct trace_reader *plain)
{
	struct event event;
	size_t i = 0;

	for (; i < run->n && trace_reader_next(plain, &event, NULL) > 0; i++) {
		const struct event ahead = trace_run_event(run, i);

		if (!same_event(&event, &ahead))
			break;
	}
	return i;
}

/* Whether an event of `end_ns` or later is alone in its run. */
static bool ends_at(const struct trace_run *run, int64_t end_ns)
{
	for (size_t i = 0; i < run->n; i++)
		if (run->events[i].ns >= end_ns && run->n > 1)
			return false;
	return true;
}

/* As compare(), with runs of events that end at this time. */
static int64_t compare_runs(struct trace_reader *plain, struct trace_reader *ahead, int64_t end_ns)
{
	struct trace_run run;
	struct event event;
	int64_t n = 0;

	while (n >= 0 && trace_reader_next_run(ahead, end_ns, &run, NULL) > 0) {
		bool same = run.n && count_same(&run, plain) == run.n &&
			    same_state(plain, ahead) && ends_at(&run, end_ns);

		n = same ? n + (int64_t)run.n : -1;
	}
	if (trace_reader_next(plain, &event, NULL) > 0 || !same_state(plain, ahead))
		n = -1;
	trace_reader_close(plain);
	trace_reader_close(ahead);
	return n;
}

static struct trace_reader *must_open(const char *dir)
{
	struct trace_reader *reader;

	if (trace_reader_open(dir, &reader, NULL))
		abort();
	return reader;
}

/* Whether a directory's trace is read the same in all ways, with at least so many events. */
static bool reads_same(const char *dir, int64_t at_least)
{
	bool same = true;

	for (size_t i = 0; i < sizeof(thread_counts) / sizeof(*thread_counts); i++) {
		struct trace_reader *ahead = must_open(dir);

		trace_reader_read_ahead(ahead, thread_counts[i]);
		same = same && compare(must_open(dir), ahead) >= at_least;
	}
	return same;
}

/* The same in runs of events, also without reading ahead. */
static bool runs_are_same(const char *dir, int64_t at_least)
{
	static const int64_t ends_ns[] = {INT64_MIN, 0, N / 2, INT64_MAX};
	bool same = true;

	for (size_t i = 0; i < sizeof(ends_ns) / sizeof(*ends_ns); i++) {
		struct trace_reader *ahead = must_open(dir);

		same = same && compare_runs(must_open(dir), must_open(dir), ends_ns[i]) >= at_least;
		trace_reader_read_ahead(ahead, (unsigned int)i % 2);
		same = same && compare_runs(must_open(dir), ahead, ends_ns[i]) >= at_least;
	}
	return same;
}

/* --- briefs ---------------------------------------------------------------------------------- */

/* Whether an event is the one of which this is a brief: all but its flags. */
static bool is_brief_of(const struct kmem_brief *brief, const struct event *event)
{
	const struct kmem_record record = kmem_brief_record(brief);
	struct kmem_record whole;

	if (!kmem_record_of(event, &whole))
		return false;
	whole.gfp_flags = 0;
	return kmem_known_class(event->class) == &kmem_classes[brief->class] &&
	       !memcmp(&record, &whole, sizeof(whole));
}

/* How many of the run's events are the next ones of another reader. */
static size_t count_briefs(const struct trace_run *run, struct trace_reader *plain)
{
	struct event event;
	size_t i = 0;

	for (; i < run->n && trace_reader_next(plain, &event, NULL) > 0; i++)
		if (event.vcpu != run->vcpu || event.index != run->index + i ||
		    !is_brief_of(&run->briefs[i], &event))
			break;
	return i;
}

/* NULL: there is none. */
static const struct trace_instance *find_kmem(const struct trace_reader *reader)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(reader, &n);

	for (size_t i = 0; i < n; i++)
		if (kmem_class_is_known(&all[i].classes[0]))
			return &all[i];
	return NULL;
}

/* Whether a trace is the same in runs that may have briefs, of which it has so many at least. */
static bool briefs_are_same(const char *dir, unsigned int nr_threads, size_t at_least)
{
	struct trace_reader *plain = must_open(dir), *ahead = must_open(dir);
	struct trace_run run;
	struct event event;
	size_t nr_briefs = 0;
	bool same = true;

	trace_reader_read_ahead(ahead, nr_threads);
	trace_reader_read_briefs(ahead, find_kmem(ahead));
	while (same && trace_reader_next_run(ahead, INT64_MAX, &run, NULL) > 0) {
		nr_briefs += run.briefs ? run.n : 0;
		same = (run.briefs ? count_briefs(&run, plain) : count_same(&run, plain)) == run.n;
	}
	same = same && trace_reader_next(plain, &event, NULL) == 0 && same_state(plain, ahead);
	trace_reader_close(plain);
	trace_reader_close(ahead);
	return same && nr_briefs >= at_least;
}

/* --- traces ---------------------------------------------------------------------------------- */

static void test_whole(void)
{
	struct scratch dir = scratch_make(), many = scratch_make();
	struct kmem_record *records = calloc(N, sizeof(*records));

	export_make(dir.path);
	ok(reads_same(dir.path, EXPORT_MAKE_EVENTS / 2), "a trace of several tracers");
	ok(runs_are_same(dir.path, EXPORT_MAKE_EVENTS / 2), "the same in runs of events");
	ok(briefs_are_same(dir.path, 0, EXPORT_MAKE_EVENTS / 16) &&
		   briefs_are_same(dir.path, 2, EXPORT_MAKE_EVENTS / 16),
	   "the same in briefs");
	ok(briefs_are_same(OLD_TRACE, 1, 0), "sonde 0.1 has no briefs");
	ok(reads_same(OLD_TRACE, 1), "a trace of sonde 0.1, whose streams define caches");
	for (unsigned int vcpu = 0; vcpu < 7; vcpu++) {
		random_records(vcpu + 1, true, records, N);
		stream_put(many.path, vcpu, records, vcpu == 3 ? 0 : N / (vcpu + 1));
	}
	ok(reads_same(many.path, N), "a kmemtrace of seven vCPUs whose time steps back");
	ok(runs_are_same(many.path, N), "the same in runs of events");
	free(records);
	scratch_remove(&many);
	scratch_remove(&dir);
}

/* Bytes of its stream are changed, missing or too many. */
static bool reads_damaged_same(const struct ctf_made *made, unsigned int seed)
{
	struct ctf_made damaged = *made;
	struct scratch dir = scratch_make();
	bool same;

	damaged.stream = malloc(made->size);
	if (!damaged.stream)
		abort();
	memcpy(damaged.stream, made->stream, made->size);
	for (unsigned int i = 0; i < seed % 5; i++)
		damaged.stream[(size_t)rand_r(&seed) % made->size] ^= 0x10;
	if (seed % 3 == 0)
		damaged.size -= (size_t)rand_r(&seed) % made->size;
	ctf_made_put(&damaged, dir.path);
	if (seed % 2 == NO_SIDECAR_AT)
		file_put(dir.path, ".sonde.json", "{\"version\":1}", 13);
	same = reads_same(dir.path, 0) && runs_are_same(dir.path, 0) &&
	       briefs_are_same(dir.path, 0, 0) && briefs_are_same(dir.path, 1, 0);
	free(damaged.stream);
	scratch_remove(&dir);
	return same;
}

static void test_damaged(void)
{
	struct kmem_record *records = calloc(DAMAGED_N, sizeof(*records));
	unsigned int wrong = 0;

	for (unsigned int seed = 1; seed <= 40; seed++) {
		struct ctf_made made;

		random_records(seed, true, records, DAMAGED_N);
		ctf_make(&made, seed % 4 == 0, records, DAMAGED_N, seed % 7 * 20);
		wrong += !reads_damaged_same(&made, seed);
		ctf_made_free(&made);
	}
	is_u64(wrong, 0, "traces with damaged packets, cut off, and of both byte orders");
	free(records);
}

/* A reader may be closed while threads have more for it than it took. */
static void test_early_end(void)
{
	struct scratch dir = scratch_make();
	struct kmem_record *records = calloc(N, sizeof(*records));
	struct event event;
	int taken = 0;

	random_records(1, false, records, N);
	for (unsigned int vcpu = 0; vcpu < 5; vcpu++)
		stream_put(dir.path, vcpu, records, N);
	for (int n = 0; n < 200; n += 9) {
		struct trace_reader *reader = must_open(dir.path);

		trace_reader_read_ahead(reader, 2);
		for (int i = 0; i < n; i++)
			taken += trace_reader_next(reader, &event, NULL);
		trace_reader_close(reader);
	}
	ok(taken > 0, "a trace that is read ahead can be left at any event");
	free(records);
	scratch_remove(&dir);
}

static void test_follow(void)
{
	struct scratch dir = scratch_make();
	struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 1, 1, 8, 8, 1);
	struct trace_reader *reader;
	struct error err = {0};

	stream_put(dir.path, 0, &record, 1);
	reader = must_open(dir.path);
	trace_reader_read_ahead(reader, 1);
	ok(trace_reader_follow(reader, &err) < 0 && strstr(err.text, "cannot be followed"),
	   "a trace that is read ahead is not followed");
	trace_reader_close(reader);
	scratch_remove(&dir);
}

int main(void)
{
	test_whole();
	test_damaged();
	test_early_end();
	test_follow();
	return tap_done();
}
