/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A damaged trace is never taken for a whole one: cut off at each byte, its replay either has all
 * events, or says that some are missing; and with any bits of any file wrong, `sonde check` says
 * so. And it does not matter who wrote it: machines of the other byte order, or of 32 bits.
 *
 * All analyses read some of the damaged traces. MUTATIONS is how many are tried (2,000), from number
 * FIRST on: each has its damage from its number. With CUTS=1 each byte is a place to cut at.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/cmd.h"
#include "tests/lib/ctf-make.h"
#include "tests/lib/damage.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum {
	TRACE_BYTES = 64 << 10,
	N = DAMAGE_MOST_RECORDS,
	FEW = 300,   /* of the trace that is mutated */
	STRIDE = 61, /* bytes between two cuts */
	FILES = 3,
	MUTATIONS = 2000,
	PROGRESS = 50000, /* rounds, between two lines that say so */
	ANALYSED = 100,   /* of so many damaged traces one is analysed, too */
	MAX_ANALYSES = 32,
	SECONDS = 60, /* what takes longer hangs: the signal ends the test */
};

/* --- a trace in memory ----------------------------------------------------------------------- */

struct files {
	struct trace_memory_file all[FILES];
	char *texts[FILES];
};

enum { STREAM, METADATA, SIDECAR };

static const char *const names[FILES] = {"cpu0", "metadata", ".sonde.json"};

static void load_files(struct files *files, size_t n)
{
	struct scratch dir = scratch_make();
	char path[128];

	snprintf(path, sizeof(path), "%s/trace", dir.path);
	damage_make_trace(path, n);
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
	uint64_t records, missing, hash; /* missing: at most, if bounded */
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
		outcome.missing = replay_bound(&replay).objects;
		outcome.records = replay.records;
	}
	replay_close(&replay);
	trace_reader_close(reader);
	hash_events(files, nr_files, &outcome);
	return outcome;
}

/* What sonde report does, to nowhere. */
static void show(struct analysis **analyses, size_t n)
{
	json_t *root = json_object();
	FILE *out = fopen("/dev/null", "w");

	if (!root || !out)
		abort();
	for (size_t i = 0; i < n; i++) {
		analyses[i]->ops->print_text(analyses[i], out);
		if (analyses[i]->ops->put_json(analyses[i], root))
			abort();
	}
	fclose(out);
	json_decref(root);
}

static size_t create_analyses(const struct replay *replay, struct analysis **analyses)
{
	const struct analysis_options options = {.dir = "damaged",
						 .pointer = 0xffff888000000000,
						 .allocator = "slub-6.1",
						 .by = {{BY_CALLSITE}, 1}};
	size_t n = 0;

	for (size_t i = 0; analysis_table[i]; i++) {
		const struct analysis_ops *ops = analysis_table[i];

		n += n < MAX_ANALYSES && !analysis_check(ops, replay, NULL) &&
		     !analysis_create(ops, replay, &options, &analyses[n], NULL);
	}
	return n;
}

/* All analyses of a trace in one pass. Returns whether they had something to say. */
static bool analyse(const char *dir)
{
	const struct replay_view view = REPLAY_ALL;
	struct analysis *analyses[MAX_ANALYSES];
	struct trace_reader *reader;
	struct replay replay;
	bool shown = false;
	size_t n = 0;

	if (trace_reader_open(dir, &reader, NULL))
		return false;
	if (!replay_begin(&replay, reader, &view, NULL) && !replay_select(&replay, NULL)) {
		n = create_analyses(&replay, analyses);
		if (!replay_run(&replay, analyses, n, NULL)) {
			show(analyses, n);
			shown = n;
		}
	}
	for (size_t i = 0; i < n; i++)
		analysis_destroy(analyses[i]);
	replay_close(&replay);
	trace_reader_close(reader);
	return shown;
}

/* All of it, or a word on the damage; and if that says how much is missing, no more is. */
static bool is_honest(const struct outcome *whole, const struct outcome *damaged)
{
	if (!damaged->opened || !damaged->bounded)
		return true;
	if (damaged->missing)
		return damaged->records < whole->records &&
		       damaged->records + damaged->missing == whole->records;
	return damaged->records == whole->records && damaged->hash == whole->hash;
}

static void test_cuts(void)
{
	const size_t stride = damage_setting("CUTS", 0) ? 1 : STRIDE;
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

/* Whether `sonde check` finds nothing at all in a trace. Sets *opened to whether it can read it. */
static bool passes_check(const char *dir, bool *opened)
{
	const char *const argv[] = {"check", dir, NULL};
	struct verb_result result = verb_run(cmd_check, argv);
	const bool passes = !result.status && strstr(result.out, "0 errors, 0 notes");

	*opened = strstr(result.out, "Result");
	verb_result_deinit(&result);
	return passes;
}

static void test_mutations(void)
{
	const uint64_t first = damage_setting("FIRST", 0),
		       rounds = damage_setting("MUTATIONS", MUTATIONS);
	struct scratch dir = scratch_make();
	struct files files = {0};
	uint64_t wrong = 0, kept = 0, analysed = 0;
	bool opened;

	load_files(&files, FEW);
	for (int i = 0; i < FILES; i++)
		file_put(dir.path, names[i], files.texts[i], files.all[i].size);
	ok(passes_check(dir.path, &opened), "a whole trace passes the check");
	for (uint64_t round = first; round < first + rounds; round++) {
		const int which = (int)(round % 4) % FILES;
		const bool differs = damage_put(dir.path, names[which], files.texts[which],
						files.all[which].size, round);

		alarm(SECONDS);
		if (round / 4 % ANALYSED == 0)
			analysed += analyse(dir.path);
		if (passes_check(dir.path, &opened) && differs) {
			wrong++;
			tap_diag("round %" PRIu64 ": %s", round, names[which]);
		}
		kept += opened;
		file_put(dir.path, names[which], files.texts[which], files.all[which].size);
		if ((round + 1) % PROGRESS == 0)
			tap_diag("%" PRIu64 " rounds", round + 1);
	}
	alarm(0);
	ok(analysed > rounds / ANALYSED / 2, "all analyses show %" PRIu64 " of them", analysed);
	ok(!wrong, "of %" PRIu64 " damaged traces none passes the check", rounds);
	ok(kept > rounds / 2, "and most of them can be read: %" PRIu64, kept);
	free_files(&files);
	scratch_remove(&dir);
}

/* One bit of each file beside the streams. */
static void test_said(void)
{
	static const struct {
		int file;
		const char *text, *want;
	} rows[] = {
		{METADATA, "clock", "    metadata is damaged: its checksum is wrong\n"},
		{SIDECAR, "\"pauses\": ", "    .sonde.json is damaged: its checksum is wrong\n"},
		{SIDECAR, "\"check", "    .sonde.json is damaged: its checksum is wrong\n"},
		{SIDECAR, "\"crc32c\": \"", "    .sonde.json is damaged: its checksum is wrong\n"},
		{SIDECAR, "{\n ", "    .sonde.json: not valid JSON in line 2\n"},
	};
	static const char finding[] = "error: damaged file beside the events: 1\n";
	struct scratch dir = scratch_make();
	struct files files = {0};

	load_files(&files, FEW);
	for (int i = 0; i < FILES; i++)
		file_put(dir.path, names[i], files.texts[i], files.all[i].size);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *const argv[] = {"check", dir.path, NULL};
		char *text = files.texts[rows[i].file], *at = strstr(text, rows[i].text);
		struct verb_result result;

		at += strlen(rows[i].text);
		*at ^= 1;
		file_put(dir.path, names[rows[i].file], text, files.all[rows[i].file].size);
		*at ^= 1;
		result = verb_run(cmd_check, argv);
		if (!ok(result.status == 1 && strstr(result.out, finding) &&
				strstr(result.out, rows[i].want),
			"row %zu: a flipped bit of %s is an error", i, names[rows[i].file]))
			tap_diag("%s", result.out);
		verb_result_deinit(&result);
		file_put(dir.path, names[rows[i].file], text, files.all[rows[i].file].size);
	}
	free_files(&files);
	scratch_remove(&dir);
}

/* A bit of the description that costs the reader all that it says of the streams. */
static void test_copy(void)
{
	static const char *const places[] = {"/* CTF 1.", "tracer_name = \"",    "sonde_format = ",
					     "uuid = \"",   "byte_order = ",     "\"instances\":",
					     "\"suffix\":",  "\"classes\":"};
	static const char want[] = "metadata is damaged: its checksum is wrong; its copy is read";
	struct scratch dir = scratch_make();
	struct files files = {0};
	char *copy;
	size_t size;

	load_files(&files, FEW);
	copy = strdup(files.texts[METADATA]);
	size = files.all[METADATA].size;
	for (int i = 0; i < FILES; i++)
		file_put(dir.path, names[i], files.texts[i], files.all[i].size);
	file_put(dir.path, ".sonde.metadata", copy, size);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const char *const argv[] = {"check", dir.path, NULL};
		char *at = strstr(files.texts[METADATA], places[i]);
		struct verb_result result;

		at += strlen(places[i]);
		at += *at == ' ';
		*at ^= 1;
		file_put(dir.path, "metadata", files.texts[METADATA], size);
		*at ^= 1;
		result = verb_run(cmd_check, argv);
		if (!ok(result.status == 1 && strstr(result.out, want) &&
				strstr(result.out, "1 error,"),
			"a flipped bit behind '%s' costs nothing, and is said", places[i]))
			tap_diag("%s%s", result.out, result.err);
		verb_result_deinit(&result);
	}
	file_put(dir.path, "metadata", copy, size);
	copy[size / 2] ^= 1;
	file_put(dir.path, ".sonde.metadata", copy, size);
	{
		const char *const argv[] = {"check", dir.path, NULL};
		struct verb_result result = verb_run(cmd_check, argv);

		ok(result.status == 1 &&
			   strstr(result.out, ".sonde.metadata is damaged: its checksum is wrong"),
		   "one in the copy is said, too");
		verb_result_deinit(&result);
	}
	free(copy);
	free_files(&files);
	scratch_remove(&dir);
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

static void put_ctf(const char *dir, const struct kmem_record *records, bool big_endian)
{
	struct ctf_made made;

	ctf_make(&made, big_endian, records, N, 0);
	ctf_made_put(&made, dir);
	ctf_made_free(&made);
}

/* As a kernel of 2008 wrote it. */
static void put_kmemtrace(const char *dir, const struct kmem_record *records, bool big_endian)
{
	static uint8_t bytes[N][KMEMTRACE_RECORD_SIZE];

	for (size_t i = 0; i < N; i++) {
		kmemtrace_encode(&records[i], bytes[i]);
		if (big_endian)
			kmemtrace_reverse(bytes[i]);
	}
	file_put(dir, "cpu0", bytes, sizeof(bytes));
	file_put(dir, "abi_version", "1\n", 2);
}

typedef void put_fn(const char *dir, const struct kmem_record *records, bool big_endian);

static char *report_of_order(put_fn *put, bool big_endian, unsigned int bits)
{
	static struct kmem_record records[N];
	struct scratch dir = scratch_make();
	char *text;

	damage_make_records(records, N, bits);
	put(dir.path, records, big_endian);
	text = report_of(dir.path);
	scratch_remove(&dir);
	return text;
}

static void test_writers_of(put_fn *put, const char *encoding)
{
	for (unsigned int bits = 32; bits <= 64; bits += 32) {
		char *little = report_of_order(put, false, bits);
		char *big = report_of_order(put, true, bits);

		ok(!strcmp(little, big) && strstr(little, bits == 32 ? "0xc1000" : "0xffffffff8"),
		   "%s of %u-bit addresses gives the same report in both byte orders", encoding,
		   bits);
		free(little);
		free(big);
	}
}

/* Of a trace of kmemtrace. */
static void test_no_checksums(void)
{
	static const struct {
		int (*verb)(int argc, char **argv);
		const char *argv[6];
		bool on_stderr;
	} rows[] = {
		{cmd_check, {"check"}, false},
		{cmd_report, {"report"}, false},
		{cmd_events, {"events"}, true},
		{cmd_convert, {"convert", "--to", "csv", "-o", "-"}, true},
	};
	static const char want[] = "records of this format have no checksums: damage may go";
	static struct kmem_record records[N];
	struct scratch dir = scratch_make();

	damage_make_records(records, N, 64);
	put_kmemtrace(dir.path, records, false);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *argv[7] = {0};
		struct verb_result result;
		size_t n = 0;

		for (; rows[i].argv[n]; n++)
			argv[n] = rows[i].argv[n];
		argv[n] = dir.path;
		result = verb_run(rows[i].verb, argv);
		ok(strstr(rows[i].on_stderr ? result.err : result.out, want) != NULL,
		   "sonde %s says that kmemtrace has no checksums", argv[0]);
		verb_result_deinit(&result);
	}
	scratch_remove(&dir);
}

static void test_writers(void)
{
	test_writers_of(put_ctf, "ctf");
	test_writers_of(put_kmemtrace, "kmemtrace");
}

int main(void)
{
	test_cuts();
	test_mutations();
	test_said();
	test_copy();
	test_no_checksums();
	test_writers();
	return tap_done();
}
