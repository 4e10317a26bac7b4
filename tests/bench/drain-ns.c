/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measures natively what an event costs the host: fills the rings of a fake guest with the records
 * of a loaded one (drain-mix.h), and has a real session drain them, through engine, tracer, encoder
 * and writer, into a trace in memory (TMPDIR, else /dev/shm).
 *
 * usage: drain-ns [-c VCPUS] [-r ROUNDS] [-k KIB] [-n] [-o DIR] [SPEC...]
 *
 * For each spec of --trace it prints the CPU time per event of the thread that drains (the best
 * round), and that of the writer's thread (the mean). With -n it prints numbers of events only: for
 * a profiler, which has its own costs. With -o the trace of the last spec becomes DIR, on the file
 * system of TMPDIR: two versions of the program must have made the same events of the same records.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "patcher/engine/ring-internal.h"
#include "patcher/session/internal.h"
#include "tests/bench/drain-mix.h"

enum { RING_BYTES = 2 << 20, ROUNDS = 10, PATIENCE_MS = 600000, SETTLE_MS = 1000, KIB = 1024 };

struct options {
	unsigned int vcpus, rounds;
	uint32_t bytes; /* in a ring, when a pass begins */
	bool quiet;     /* no times */
	const char *out;
};

struct costs {
	struct drain_mix_counts counts;
	double drain_ns;  /* per event */
	uint64_t all_ns;  /* of all threads but the one that fills */
	uint64_t sum_ns;  /* of the drain's */
	uint64_t on_disk; /* bytes */
};

static int fail(const char *spec, const char *what)
{
	fprintf(stderr, "drain-ns: %s: %s\n", spec, what);
	return EXIT_FAILURE;
}

/* --- a session ------------------------------------------------------------------------------- */

static int start(struct fake_session *fs, const char *spec, struct error *err)
{
	const struct trace_options options = {.exitless = true, .ring_bytes = RING_BYTES};
	const char *const specs[] = {spec, NULL};

	/* as with KVM: its memory is the host's */
	fs->fg.regions[0].hva = fs->fg.base.ram;
	trace_session_set_options(fs->session, &options);
	return trace_session_start(fs->session, specs, err);
}

static uint64_t records_taken(struct ring_engine *x)
{
	struct trace_counters sum = {0};

	for (unsigned int i = 0; i < x->nr_vcpus; i++)
		x->engine.ops->counts(&x->engine, i, &sum);
	return sum.v[COUNTER_RING_RECORDS];
}

static uint64_t thread_ns(pthread_t thread)
{
	clockid_t id;

	return pthread_getcpuclockid(thread, &id) ? 0 : clock_ns_of(id);
}

/* Have the thread take all records; its CPU time. 0: it does not get them all. */
static uint64_t drain(struct ring_engine *x, uint64_t records)
{
	uint64_t ns;

	if (ring_engine_start_thread(x, NULL))
		return 0;
	for (int i = 0; i < PATIENCE_MS && records_taken(x) < records; i++)
		clock_wait_ms(1);
	ns = thread_ns(x->thread);
	ring_engine_stop_thread(x);
	return records_taken(x) == records ? ns : 0;
}

/* CPU time of all threads but this one. */
static uint64_t others_ns(void)
{
	return clock_ns_of(CLOCK_PROCESS_CPUTIME_ID) - clock_ns_of(CLOCK_THREAD_CPUTIME_ID);
}

static bool run_round(struct ring_engine *x, struct drain_mix *mix, const struct options *o,
		      struct costs *costs)
{
	const uint64_t before = costs->counts.events;
	uint64_t ns;
	double each;

	if (drain_mix_is_direct(mix))
		drain_mix_fill_direct(mix, o->bytes, &costs->counts);
	else
		drain_mix_fill_kmem(mix, o->bytes, &costs->counts);
	ns = drain(x, costs->counts.records);
	each = (double)ns / (double)(costs->counts.events - before);
	if (!costs->drain_ns || each < costs->drain_ns)
		costs->drain_ns = each;
	costs->sum_ns += ns;
	return ns;
}

/* --- what it has cost ------------------------------------------------------------------------ */

static void print(const char *spec, const struct options *o, const struct costs *c)
{
	double n = (double)c->counts.events;

	printf("%-24s vcpus %u events %llu records %llu bytes %.2f", spec, o->vcpus,
	       (unsigned long long)c->counts.events, (unsigned long long)c->counts.records,
	       (double)c->on_disk / n);
	if (!o->quiet)
		printf(" drain_ns %.2f writer_ns %.2f", c->drain_ns,
		       (double)(c->all_ns - c->sum_ns) / n);
	printf("\n");
}

static uint64_t events_written(const struct trace_writer *writer)
{
	struct trace_writer_counts counts;
	uint64_t sum = 0;

	for (unsigned int i = 0; i < FAKE_VCPUS; i++) {
		trace_writer_counts(writer, i, &counts);
		sum += counts.events;
	}
	return sum;
}

/* A figure is of no use if something was lost. */
static const char *find_loss(const struct fake_session *fs, const struct costs *costs)
{
	struct trace_status status;

	trace_session_status(fs->session, &status);
	trace_writer_counters(fs->writer, &status.counters);
	if (counters_are_lossy(&status.counters))
		return "events were lost";
	if (events_written(fs->writer) != costs->counts.events)
		return "the trace does not have the events";
	return NULL;
}

static const char *measure_rounds(struct fake_session *fs, struct drain_mix *mix,
				  const struct options *o, struct costs *costs)
{
	struct ring_engine *x = ring_engine_of(fs->session->ring_engine);
	uint64_t begin;

	if (!drain_mix_begin(mix, o->vcpus))
		return "there are no rings";
	ring_engine_stop_thread(x);
	begin = others_ns();
	for (unsigned int i = 0; i < o->rounds; i++)
		if (!run_round(x, mix, o, costs))
			return "not all records were drained";
	/* the writer's thread is behind */
	clock_wait_ms(SETTLE_MS);
	costs->all_ns = others_ns() - begin;
	if (trace_writer_flush(fs->writer, NULL))
		return "the trace cannot be written";
	costs->on_disk = trace_writer_bytes(fs->writer);
	/* a stop needs it */
	if (ring_engine_start_thread(x, NULL))
		return "no thread";
	if (o->out && rename(fs->dir.path, o->out))
		return "the trace cannot be moved";
	return find_loss(fs, costs);
}

static int measure(const char *spec, const struct options *o)
{
	static struct fake_session fs;
	struct costs costs = {{0}, 0, 0, 0, 0};
	struct drain_mix *mix;
	struct error err;
	const char *why;

	fake_session_create(&fs);
	if (fake_kernel_describe_cgroups(&fs.fg.base))
		abort();
	mix = drain_mix_create(&fs);
	why = start(&fs, spec, &err) ? err.text : measure_rounds(&fs, mix, o, &costs);
	if (!why)
		print(spec, o, &costs);
	fake_session_destroy(&fs);
	drain_mix_destroy(mix);
	return why ? fail(spec, why) : EXIT_SUCCESS;
}

static int parse(int argc, char **argv, struct options *o)
{
	int c;

	while ((c = getopt(argc, argv, "c:r:k:no:")) >= 0) {
		unsigned int value = optarg ? (unsigned int)atoi(optarg) : 0;

		if (c == 'n')
			o->quiet = true;
		else if (c == 'o')
			o->out = optarg;
		else if (c == 'c' && value && value <= FAKE_VCPUS)
			o->vcpus = value;
		else if (c == 'r' && value)
			o->rounds = value;
		else if (c == 'k' && value && value <= RING_BYTES / KIB)
			o->bytes = value * KIB;
		else
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static char *standard[] = {"kmem:kmalloc,cache", "kmem", "function", NULL};
	struct options o = {.vcpus = FAKE_VCPUS, .rounds = ROUNDS, .bytes = RING_BYTES};
	char **specs = standard;
	int status = 0;

	if (parse(argc, argv, &o)) {
		fputs("usage: drain-ns [-c VCPUS] [-r ROUNDS] [-k KIB] [-n] [-o DIR] [SPEC...]\n",
		      stderr);
		return 2;
	}
	setenv("TMPDIR", "/dev/shm", 0);
	if (optind < argc)
		specs = argv + optind;
	for (; !status && *specs; specs++)
		status = measure(*specs, &o);
	return status;
}
