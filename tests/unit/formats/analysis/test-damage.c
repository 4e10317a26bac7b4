/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A damaged trace is never taken for a whole one: cut off at each byte, or with bits that are
 * wrong, its replay either has all events, or says that some are missing. And it does not matter
 * who wrote it: machines of the other byte order, or of 32 bits.
 *
 * MUTATIONS is how many damaged traces are tried (2,000); with CUTS=1 each byte is a place to cut
 * at.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/replay.h"
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	TRACE_BYTES = 64 << 10,
	N = 4200,    /* records of about 16 bytes */
	FEW = 300,   /* of the trace that is mutated */
	FLUSH = 60,  /* records of a packet */
	STRIDE = 61, /* bytes between two cuts */
	FILES = 3,
	MUTATIONS = 2000,
};

/* --- a trace in memory ----------------------------------------------------------------------- */

struct files {
	struct trace_memory_file all[FILES];
	char *texts[FILES];
};

enum { STREAM, METADATA, SIDECAR };

static const char *const names[FILES] = {"cpu0", "metadata", ".sonde.json"};

/* Objects that are allocated and freed, with addresses of `bits`. */
static void make_records(struct kmem_record *records, size_t n, unsigned int bits)
{
	const uint64_t base = bits == 32 ? 0xc0000000 : 0xffff888000000000;
	const uint64_t text = bits == 32 ? 0xc1000000 : 0xffffffff81000000;
	unsigned int seed = bits;

	for (size_t i = 0; i < n; i++) {
		const uint64_t ptr = base + (uint64_t)(rand_r(&seed) % 512) * 64;
		const uint64_t site = text + (uint64_t)(rand_r(&seed) % 50) * 32;
		const int64_t ns = 1000 * (int64_t)i;

		records[i] = rand_r(&seed) % 2
				     ? make_alloc(KMEM_TYPE_KMALLOC, ptr, site, 60, 64, ns)
				     : make_free(KMEM_TYPE_KMALLOC, ptr, site, ns);
	}
}

/* As a recorder leaves it: with a sidecar that counts the events. */
static void write_trace(const char *dir, size_t n)
{
	static struct kmem_record records[N];
	struct trace_info info = {.page_size = 4096};
	struct trace_writer *writer;

	make_records(records, n, 64);
	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	for (size_t i = 0; i < n; i++) {
		if (trace_writer_append(writer, 0, &records[i]) ||
		    (i % FLUSH == 0 && trace_writer_flush(writer, NULL)))
			abort();
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void load_files(struct files *files, size_t n)
{
	struct scratch dir = scratch_make();
	char path[128];

	snprintf(path, sizeof(path), "%s/trace", dir.path);
	write_trace(path, n);
	for (int i = 0; i < FILES; i++) {
		files->all[i].name = names[i];
		files->texts[i] = file_get(path, names[i], &files->all[i].size);
		files->all[i].bytes = files->texts[i];
		if (!files->texts[i])
			abort();
	}
	scratch_remove(&dir);
}

static void free_files(struct files *files)
{
	for (int i = 0; i < FILES; i++)
		free(files->texts[i]);
}

/* --- its replay ------------------------------------------------------------------------------ */

struct outcome {
	bool opened, bounded;
	uint64_t records, hash;
};

static uint64_t hash_record(uint64_t hash, const struct kmem_record *r)
{
	const uint64_t words[] = {r->event_id,  r->type_id,     r->call_site,          r->ptr,
				  r->bytes_req, r->bytes_alloc, (uint64_t)r->timestamp};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static void hash_events(const struct trace_memory_file *files, size_t nr_files,
			struct outcome *outcome)
{
	struct trace_reader *reader;
	struct kmem_record record;
	struct event event;

	if (trace_reader_open_memory(files, nr_files, &reader, NULL))
		return;
	while (trace_reader_next(reader, &event, NULL) > 0)
		if (kmem_record_of(&event, &record))
			outcome->hash = hash_record(outcome->hash, &record);
	trace_reader_close(reader);
}

static struct outcome replay_files(const struct trace_memory_file *files, size_t nr_files)
{
	const struct replay_view view = REPLAY_ALL;
	struct outcome outcome = {0};
	struct trace_reader *reader;
	struct replay replay;

	if (trace_reader_open_memory(files, nr_files, &reader, NULL))
		return outcome;
	if (!replay_begin(&replay, reader, &view, NULL) && !replay_select(&replay, NULL) &&
	    !replay_run(&replay, NULL, 0, NULL)) {
		outcome.opened = true;
		outcome.bounded = replay_bound(&replay).is_bounded && !*trace_reader_note(reader);
		outcome.records = replay.records;
	}
	replay_close(&replay);
	trace_reader_close(reader);
	hash_events(files, nr_files, &outcome);
	return outcome;
}

/* All of it, or a word on the damage. */
static bool is_honest(const struct outcome *whole, const struct outcome *damaged)
{
	return !damaged->opened || !damaged->bounded ||
	       (damaged->records == whole->records && damaged->hash == whole->hash);
}

static uint64_t wish(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_cuts(void)
{
	const size_t stride = wish("CUTS", 0) ? 1 : STRIDE;
	struct files files = {0};
	struct outcome whole;
	uint64_t wrong = 0, fewer = 0, last = 0;
	size_t size;

	load_files(&files, N);
	size = files.all[STREAM].size;
	whole = replay_files(files.all, FILES);
	ok(size >= TRACE_BYTES, "a stream of 64 KiB: %zu bytes", size);
	ok(whole.bounded && whole.records == N, "which is whole");
	for (size_t cut = 0; cut < size; cut += stride) {
		uint8_t *exact = malloc(cut + 1); /* so that ASan sees a read too far */
		struct outcome outcome;

		if (!exact)
			abort();
		memcpy(exact, files.texts[STREAM], cut);
		files.all[STREAM].bytes = exact;
		files.all[STREAM].size = cut;
		outcome = replay_files(files.all, FILES);
		wrong += !is_honest(&whole, &outcome);
		fewer += outcome.records < last;
		last = outcome.records;
		free(exact);
	}
	is_u64(wrong, 0, "cut off anywhere, it is never taken for a whole one");
	is_u64(fewer, 0, "and a longer piece has no fewer events");
	free_files(&files);
}

/* Bytes of a file are changed, left out, doubled. The sidecar has no checksum. */
static void mutate(char *bytes, size_t *size, unsigned int *seed)
{
	size_t at = (size_t)rand_r(seed) % *size, n = 1 + (size_t)rand_r(seed) % 64;

	n = n < *size - at ? n : *size - at;
	switch (rand_r(seed) % 4) {
	case 0:
		memmove(bytes + at, bytes + at + n, *size - at - n);
		*size -= n;
		break;
	case 1:
		memmove(bytes + at + n, bytes + at, *size - at);
		*size += n;
		break;
	case 2:
		for (size_t i = 0; i < n; i++)
			bytes[at + i] = (char)rand_r(seed);
		break;
	default:
		bytes[at] = (char)(bytes[at] ^ 1 << rand_r(seed) % 8);
	}
}

static void test_mutations(void)
{
	const uint64_t rounds = wish("MUTATIONS", MUTATIONS);
	struct files files = {0};
	struct outcome whole;
	uint64_t wrong = 0, kept = 0;

	load_files(&files, FEW);
	whole = replay_files(files.all, FILES);
	for (uint64_t round = 0; round < rounds; round++) {
		struct trace_memory_file damaged[FILES];
		unsigned int seed = (unsigned int)round;
		const int which = round % 4 ? STREAM : METADATA;
		char *copy = malloc(files.all[which].size + 256);
		struct outcome outcome;

		if (!copy)
			abort();
		memcpy(damaged, files.all, sizeof(damaged));
		memcpy(copy, files.texts[which], files.all[which].size);
		for (int i = 0; i <= (int)round % 3 && damaged[which].size; i++)
			mutate(copy, &damaged[which].size, &seed);
		damaged[which].bytes = copy;
		outcome = replay_files(damaged, FILES);
		kept += outcome.opened;
		if (!is_honest(&whole, &outcome)) {
			wrong++;
			tap_diag("round %" PRIu64 ": %" PRIu64 " of %" PRIu64 " records", round,
				 outcome.records, whole.records);
		}
		free(copy);
	}
	ok(!wrong, "of %" PRIu64 " damaged traces none is taken for a whole one", rounds);
	ok(kept > rounds / 2, "and most of them can be read: %" PRIu64, kept);
	free_files(&files);
}

/* --- other machines -------------------------------------------------------------------------- */

/* The text of a report, without the trace's name. */
static char *report_of(const char *dir)
{
	const char *const argv[] = {"report", "--json", dir, NULL};
	struct verb_result result = verb_run(cmd_report, argv);
	json_t *root = json_loads(result.out, 0, NULL);
	char *text;

	if (!root)
		abort();
	json_object_del(root, "dir");
	json_object_del(root, "trace");
	text = json_dumps(root, JSON_SORT_KEYS);
	json_decref(root);
	verb_result_deinit(&result);
	return text;
}

static char *report_of_order(bool big_endian, unsigned int bits)
{
	static struct kmem_record records[N];
	struct scratch dir = scratch_make();
	struct ctf_made made;
	char *text;

	make_records(records, N, bits);
	ctf_make(&made, big_endian, records, N, 0);
	ctf_made_put(&made, dir.path);
	text = report_of(dir.path);
	ctf_made_free(&made);
	scratch_remove(&dir);
	return text;
}

static void test_writers(void)
{
	for (unsigned int bits = 32; bits <= 64; bits += 32) {
		char *little = report_of_order(false, bits), *big = report_of_order(true, bits);

		ok(!strcmp(little, big) && strstr(little, bits == 32 ? "0xc1000" : "0xffffffff8"),
		   "a trace of %u-bit addresses gives the same report in both byte orders", bits);
		free(little);
		free(big);
	}
}

int main(void)
{
	test_cuts();
	test_mutations();
	test_writers();
	return tap_done();
}
