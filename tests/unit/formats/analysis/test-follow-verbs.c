/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Verbs with --follow read a trace while it is written, and end with what they say of it then. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { VCPUS = 2, ROUNDS = 60, ROUND_US = 25000 };

static const struct trace_info info = {.mode = "trap",
				       .writer = "run",
				       .page_size = 4096,
				       .from_first_allocation = true,
				       .slab_allocator = "slub",
				       .banner = "Linux version 6.1.0-test (x@y) #1"};

struct recorder {
	struct trace_writer *writer;
	atomic_bool has_ended;
};

static bool tell(void *arg, struct trace_info *out)
{
	(void)arg;
	*out = info;
	return true;
}

static void append(struct trace_writer *writer, unsigned int vcpu, struct kmem_record record)
{
	if (trace_writer_append(writer, vcpu, &record))
		abort();
}

/* An object that stays, and one that the other vCPU frees. */
static void put_round(struct trace_writer *writer, unsigned int i)
{
	const unsigned int vcpu = i % VCPUS;
	const int64_t ns = 1000 + (int64_t)i * 1000;
	const uint64_t kept = 0x10000 + i * 64, freed = 0x90000 + i * 64;

	append(writer, vcpu, make_alloc(KMEM_TYPE_KMALLOC, kept, 0x1000 + i % 3, 60, 64, ns));
	append(writer, vcpu, make_alloc(KMEM_TYPE_KMALLOC, freed, 0x2000, 8, 8, ns + 1));
	append(writer, 1 - vcpu, make_free(KMEM_TYPE_KMALLOC, freed, 0x3000, ns + 500));
}

static void *record(void *arg)
{
	struct recorder *r = arg;

	for (unsigned int i = 1; i <= ROUNDS; i++) {
		put_round(r->writer, i);
		usleep(ROUND_US);
	}
	if (trace_writer_finish(r->writer, &info, NULL, NULL, NULL))
		abort();
	r->has_ended = true;
	trace_writer_destroy(r->writer);
	return NULL;
}

typedef int verb_fn(int argc, char **argv);

static struct recorder *begin(const char *dir, unsigned int encoding)
{
	struct recorder *r = calloc(1, sizeof(*r));

	if (!r || trace_writer_create(dir, VCPUS, encoding, &info, &r->writer, NULL))
		abort();
	trace_writer_set_source(r->writer, tell, NULL, NULL);
	put_round(r->writer, 0);
	if (trace_writer_flush(r->writer, NULL))
		abort();
	return r;
}

static void test_verb(unsigned int encoding, verb_fn *verb, const char *name)
{
	struct scratch dir = scratch_make();
	struct recorder *r = begin(dir.path, encoding);
	struct verb_result followed, whole;
	pthread_t thread;

	if (pthread_create(&thread, NULL, record, r))
		abort();
	followed =
		verb_run(verb, (const char *const[]){name, "--json", "--follow", dir.path, NULL});
	ok(r->has_ended, "sonde %s --follow goes on until the recorder ends", name);
	pthread_join(thread, NULL);
	whole = verb_run(verb, (const char *const[]){name, "--json", dir.path, NULL});
	if (!ok(!followed.status && strstr(whole.out, "\"records\": 183"), "the trace is whole"))
		tap_diag("%s%s", whole.err, whole.out);
	is_str(followed.out, whole.out, "then it prints what it prints of the whole trace");
	is_str(followed.err, whole.err, "and complains of nothing else");
	verb_result_deinit(&followed);
	verb_result_deinit(&whole);
	free(r);
	scratch_remove(&dir);
}

int main(void)
{
	for (unsigned int i = 0; trace_encoding_names[i]; i++) {
		tap_diag("%s", trace_encoding_names[i]);
		test_verb(i, cmd_report, "report");
		test_verb(i, cmd_replay, "replay");
		test_verb(i, cmd_leaks, "leaks");
		test_verb(i, cmd_timeline, "timeline");
	}
	return tap_done();
}
