/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/checks/check.h"
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define KMALLOC KMEM_TYPE_KMALLOC
#define CACHE KMEM_TYPE_CACHE
#define PAGES KMEM_TYPE_PAGES

enum { MAX_RECORDS = 6, P = 0x4000, Q = 0x8000, SITE = 0x1000 };

#define ALLOC(type, ptr, req, alloc, time)                                              \
	{                                                                               \
		KMEM_EVENT_ALLOC, (type), 0, -1, SITE, (ptr), (req), (alloc), 0, (time) \
	}
#define FREE(type, ptr, time)                                               \
	{                                                                   \
		KMEM_EVENT_FREE, (type), 0, 0, SITE, (ptr), 0, 0, 0, (time) \
	}

enum trust { WHOLE, LATE, LOSSY }; /* from the first allocation; from later on; with losses */

/* One vCPU's records and the only finding there must be (count 0: none at all). */
static const struct {
	const char *what;
	enum trust trust;
	struct kmem_record records[MAX_RECORDS];
	const char *class;
	enum check_severity severity;
	uint64_t count;
} rows[] = {
	{"allocated, freed and allocated again: no finding",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), FREE(KMALLOC, P, 2), ALLOC(CACHE, P, 8, 8, 3)},
	 NULL,
	 0,
	 0},
	{"pages and a slab object live at one address: no finding",
	 WHOLE,
	 {ALLOC(PAGES, P, 4096, 4096, 1), ALLOC(CACHE, P, 8, 8, 2), FREE(CACHE, P, 3),
	  FREE(PAGES, P, 4)},
	 NULL,
	 0,
	 0},
	{"an unknown event id is an error",
	 WHOLE,
	 {{3, KMALLOC, 0, 0, SITE, P, 8, 8, 0, 1}},
	 "event-id",
	 CHECK_ERROR,
	 1},
	{"an unknown type id is an error",
	 WHOLE,
	 {ALLOC(3, P, 8, 8, 1)},
	 "type-id",
	 CHECK_ERROR,
	 1},
	{"NULL allocated and NULL freed are errors",
	 WHOLE,
	 {ALLOC(KMALLOC, 0, 8, 8, 1), FREE(KMALLOC, 0, 2)},
	 "null-pointer",
	 CHECK_ERROR,
	 2},
	{"an allocation of zero bytes is an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 0, 8, 1)},
	 "zero-bytes",
	 CHECK_ERROR,
	 1},
	{"fewer bytes than requested are an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 9, 8, 1)},
	 "too-few-bytes",
	 CHECK_ERROR,
	 1},
	{"a time stamp before the last is an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 5), FREE(KMALLOC, P, 4)},
	 "time-order",
	 CHECK_ERROR,
	 1},
	{"equal time stamps: no finding",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 5), FREE(KMALLOC, P, 5)},
	 NULL,
	 0,
	 0},
	{"a live address allocated again is an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), ALLOC(CACHE, P, 8, 8, 2)},
	 "alloc-live",
	 CHECK_ERROR,
	 1},
	{"a live address allocated again is an error, too, if tracing began late",
	 LATE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), ALLOC(KMALLOC, P, 8, 8, 2)},
	 "alloc-live",
	 CHECK_ERROR,
	 1},
	{"a live address allocated again is a note in a trace with losses",
	 LOSSY,
	 {ALLOC(KMALLOC, P, 8, 8, 1), ALLOC(KMALLOC, P, 8, 8, 2)},
	 "alloc-live",
	 CHECK_NOTE,
	 1},
	{"a free of a free address is an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), FREE(KMALLOC, P, 2), FREE(KMALLOC, P, 3)},
	 "free-twice",
	 CHECK_ERROR,
	 1},
	{"a free of a free address is an error, too, if tracing began late",
	 LATE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), FREE(KMALLOC, P, 2), FREE(KMALLOC, P, 3)},
	 "free-twice",
	 CHECK_ERROR,
	 1},
	{"a free of a free address is a note in a trace with losses",
	 LOSSY,
	 {ALLOC(KMALLOC, P, 8, 8, 1), FREE(KMALLOC, P, 2), FREE(KMALLOC, P, 3)},
	 "free-twice",
	 CHECK_NOTE,
	 1},
	{"a free of an address never allocated is an error",
	 WHOLE,
	 {FREE(CACHE, P, 1)},
	 "free-unknown",
	 CHECK_ERROR,
	 1},
	{"a free of an older object is a note if tracing began late",
	 LATE,
	 {FREE(CACHE, P, 1)},
	 "free-earlier",
	 CHECK_NOTE,
	 1},
	{"boot memory given to the page allocator is a note",
	 WHOLE,
	 {FREE(PAGES, P, 1)},
	 "free-earlier",
	 CHECK_NOTE,
	 1},
	{"a free of free pages is a note: compaction takes pages without an event",
	 WHOLE,
	 {ALLOC(PAGES, P, 4096, 4096, 1), FREE(PAGES, P, 2), FREE(PAGES, P, 3)},
	 "free-twice",
	 CHECK_NOTE,
	 1},
	{"a page of a block freed in pieces counts as allocated with the block",
	 WHOLE,
	 {ALLOC(PAGES, P + 4096, 4096, 4096, 1), FREE(PAGES, P + 4096, 2),
	  ALLOC(PAGES, P, 8192, 8192, 3), FREE(PAGES, P, 4), FREE(PAGES, P + 4096, 5)},
	 "free-earlier",
	 CHECK_NOTE,
	 1},
	{"kfree() of a cache's object is a note",
	 WHOLE,
	 {ALLOC(CACHE, P, 8, 8, 1), FREE(KMALLOC, P, 2)},
	 "family",
	 CHECK_NOTE,
	 1},
	{"kmem_cache_free() of a kmalloc() object is an error",
	 WHOLE,
	 {ALLOC(KMALLOC, P, 8, 8, 1), FREE(CACHE, P, 2)},
	 "family",
	 CHECK_ERROR,
	 1},
	{"kfree() of pages is an error",
	 WHOLE,
	 {ALLOC(PAGES, P, 4096, 4096, 1), FREE(KMALLOC, P, 2)},
	 "family",
	 CHECK_ERROR,
	 1},
};

static const struct sidecar from_first = {.info.from_first_allocation = true};

static uint64_t count_all(const struct checker *checker)
{
	uint64_t sum = 0;

	for (size_t i = 0; check_table[i]; i++) {
		for (size_t class = 0; check_table[i]->classes[class].id; class ++)
			sum += checker_finding(checker, i, class, CHECK_NOTE)->count +
			       checker_finding(checker, i, class, CHECK_ERROR)->count;
	}
	return sum;
}

static const struct check_finding *finding(const struct checker *checker, const char *id,
					   enum check_severity severity)
{
	for (size_t i = 0; check_table[i]; i++) {
		for (size_t class = 0; check_table[i]->classes[class].id; class ++) {
			if (!strcmp(check_table[i]->classes[class].id, id))
				return checker_finding(checker, i, class, severity);
		}
	}
	abort();
}

static void test_classes(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct checker *checker = checker_create(rows[i].trust == LATE ? NULL : &from_first,
							 rows[i].trust == LOSSY);
		uint64_t count = 0;

		for (unsigned int r = 0; r < MAX_RECORDS && rows[i].records[r].timestamp; r++) {
			struct event event = kmem_event_of(&rows[i].records[r], &kmem_instance);

			event.index = r;

			checker_event(checker, &event, false);
		}
		if (rows[i].class)
			count = finding(checker, rows[i].class, rows[i].severity)->count;
		if (!ok(count == rows[i].count && count_all(checker) == rows[i].count, "%s",
			rows[i].what))
			tap_diag("%u of the class, %u in all", (unsigned int)count,
				 (unsigned int)count_all(checker));
		checker_destroy(checker);
	}
}

static void test_examples(void)
{
	struct checker *checker = checker_create(&from_first, false);
	const struct check_finding *live = finding(checker, "alloc-live", CHECK_ERROR);

	for (unsigned int i = 0; i < 20; i++) {
		const struct kmem_record record = make_alloc(KMALLOC, P, SITE + i, 8, 8, i);
		struct event event = kmem_event_of(&record, &kmem_instance);

		event.vcpu = 2;
		event.index = i;

		checker_event(checker, &event, false);
	}
	is_u64(live->count, 19, "all findings of a class are counted");
	is_u64(live->nr_examples, CHECK_MAX_EXAMPLES,
	       "the first five findings of a class are kept as examples");
	is_u64(live->examples[1].event.at.index, 2, "examples stand in the order of events");
	is_u64(live->examples[1].allocation_call_site, SITE + 1,
	       "an example names the call site of the object's allocation");
	checker_destroy(checker);
}

/* Two instances see the same objects, the second one a part of the calls. */
static void test_instances(const char *part)
{
	const char *const specs[] = {"kmem", part};
	static const struct kmem_record records[] = {ALLOC(KMALLOC, P, 8, 8, 1),
						     FREE(KMALLOC, P, 2)};
	static const struct kmem_record stray[] = {FREE(KMALLOC, Q, 3), FREE(KMALLOC, P, 4)};
	static const char *const names[] = {"kmem", "later"};
	struct sidecar_instance rows_of[2] = {0};
	struct sidecar sidecar = from_first;
	struct checker *checker = checker_create(&sidecar, false);
	struct trace_instance instances[2];

	for (int i = 0; i < 2; i++) {
		instances[i] = kmem_instance;
		instances[i].name = names[i];
		instances[i].spec = specs[i];
		instances[i].late = i > 0;
		rows_of[i].about = instances[i];
	}
	sidecar.instances = rows_of;
	sidecar.nr_instances = 2;
	for (int r = 0; r < 2; r++) {
		for (int i = 0; i < 2; i++) {
			const struct event event = kmem_event_of(&records[r], &instances[i]);

			checker_event(checker, &event, false);
		}
	}
	is_u64(count_all(checker), 0, "each instance is a stream of its own");
	for (int r = 0; r < 2; r++) {
		const struct event event = kmem_event_of(&stray[r], &instances[1]);

		checker_event(checker, &event, false);
	}
	is_u64(finding(checker, "free-earlier", CHECK_NOTE)->count, 1,
	       "a later instance has not seen all allocations");
	is_u64(finding(checker, "free-twice", CHECK_NOTE)->count, 1,
	       "a double free is a note where the instance sees a part of the calls");
	checker_destroy(checker);
}

static const char whole_sidecar[] =
	"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,"
	"\"vcpus\":[{\"allocs\":2,\"frees\":1},{\"allocs\":1,\"frees\":2}],"
	"\"symbols\":[{\"name\":\"do_it\",\"start\":\"0x0ff0\",\"size\":32}]}";

/* Two vCPUs that hand objects to each other: no finding as long as all is there. */
static void put_pair(const char *dir)
{
	const struct kmem_record first[] = {ALLOC(KMALLOC, P, 8, 8, 10), ALLOC(CACHE, Q, 8, 8, 30),
					    FREE(KMALLOC, P, 60)};
	const struct kmem_record second[] = {FREE(KMALLOC, P, 20), FREE(CACHE, Q, 40),
					     ALLOC(KMALLOC, P, 8, 8, 50)};

	stream_put(dir, 0, first, 3);
	stream_put(dir, 1, second, 3);
	file_put(dir, "sonde.json", whole_sidecar, strlen(whole_sidecar));
	file_put(dir, "total_overruns", "0\n", 2);
}

static int check_status(const char *dir, char **out)
{
	const char *argv[] = {"check", dir, NULL};
	struct verb_result result = verb_run(cmd_check, argv);
	int status = result.status;

	if (out) {
		*out = result.out;
		result.out = NULL;
	}
	verb_result_deinit(&result);
	return status;
}

/* Either file cut at any byte: never an error, and always told. */
static void test_cuts(void)
{
	struct scratch dir = scratch_make();
	unsigned int errors = 0, silent = 0;

	for (int file = 0; file < 2; file++) {
		for (size_t size = 0; size < 3 * KMEMTRACE_RECORD_SIZE; size += 4) {
			const char *name = file ? "cpu1" : "cpu0";
			char *bytes, *out;

			put_pair(dir.path);
			bytes = file_get(dir.path, name, NULL);
			file_put(dir.path, name, bytes, size);
			free(bytes);
			errors += check_status(dir.path, &out) != 0;
			silent += !strstr(out, "note: stream cut off");
			free(out);
		}
	}
	is_u64(errors, 0, "a trace that is cut at any byte has no errors");
	is_u64(silent, 0, "a trace that is cut at any byte has a note");
	scratch_remove(&dir);
}

static void test_verb(void)
{
	struct scratch dir = scratch_make();
	const struct kmem_record bad[] = {FREE(KMALLOC, P, 20), FREE(CACHE, Q, 40),
					  ALLOC(KMALLOC, P, 9, 8, 50)};
	char *out;

	put_pair(dir.path);
	is_u64((uint64_t)check_status(dir.path, &out), 0,
	       "sonde check exits with 0 for a good trace");
	ok(strstr(out, "Lost") && strstr(out, "none"), "sonde check says that nothing is lost");
	free(out);
	stream_put(dir.path, 1, bad, 3);
	is_u64((uint64_t)check_status(dir.path, &out), 1,
	       "sonde check exits with 1 for a trace with an error");
	ok(strstr(out, "error: fewer bytes allocated than requested: 1\n"),
	   "text names the class of a finding");
	ok(strstr(out, "cpu1 record 2 (byte 112) at 0.000000050 s"),
	   "text names the file, record and time of an example");
	ok(strstr(out, "alloc of 0x4000 by do_it+0x10/0x20, 8 of 9 bytes"),
	   "text shows an example's record, with the symbol of its call site");
	free(out);
	stream_put(dir.path, 1, bad, 1);
	file_put(dir.path, "total_overruns", "112\n", 4);
	is_u64((uint64_t)check_status(dir.path, &out), 0,
	       "a doubt about an object's life is no error in a trace with losses");
	ok(strstr(out, "2 records: not written"), "sonde check says what is lost");
	free(out);
	scratch_remove(&dir);
}

/* Frees of what untraced functions have allocated. */
static void test_untraced(void)
{
	static const char sidecar[] =
		"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,"
		"\"gaps\":[{\"function\":\"alloc_it\",\"reason\":\"it has no site\"},"
		"{\"function\":\"b\",\"reason\":\"its end is not known\"},"
		"{\"function\":\"alloc_that\",\"reason\":\"it has no site\"}],"
		"\"vcpus\":[{\"allocs\":1,\"frees\":2}]}";
	const struct kmem_record records[] = {ALLOC(KMALLOC, P, 8, 8, 10), FREE(KMALLOC, P, 20),
					      FREE(KMALLOC, P, 30)};
	struct scratch dir = scratch_make();
	char *out;

	stream_put(dir.path, 0, records, 3);
	file_put(dir.path, "sonde.json", sidecar, strlen(sidecar));
	is_u64((uint64_t)check_status(dir.path, &out), 0,
	       "a doubt about an object's life is no error where functions are not traced");
	ok(strstr(out, "Untraced  alloc_it, alloc_that: it has no site\n"
		       "          b: its end is not known\n") &&
		   strstr(out, "\nResult    0 errors, 1 note\n"),
	   "but a note, and sonde check says which functions");
	free(out);
	scratch_remove(&dir);
}

static void test_json(void)
{
	struct scratch dir = scratch_make();
	const char *argv[] = {"check", "--json", dir.path, NULL};
	const struct kmem_record bad[] = {FREE(KMALLOC, P, 45), FREE(CACHE, Q, 41),
					  ALLOC(KMALLOC, P, 8, 8, 50)};
	struct verb_result result;
	const char *class = NULL, *file = NULL, *symbol = NULL;
	json_int_t errors = -1, record = -1;
	json_t *root;

	put_pair(dir.path);
	stream_put(dir.path, 1, bad, 3);
	result = verb_run(cmd_check, argv);
	root = json_loads(result.out, 0, NULL);
	is_u64((uint64_t)result.status, 1,
	       "sonde check --json exits with 1 for a trace with an error");
	ok(!json_unpack(root, "{s:I s:[{s:s s:[{s:s s:I s:s}]}]}", "errors", &errors, "findings",
			"class", &class, "examples", "file", &file, "record", &record, "symbol",
			&symbol),
	   "JSON has the keys of sonde-check(1)");
	is_u64((uint64_t)errors, 1, "JSON counts the error");
	is_str(class, "time-order", "JSON names the class of a finding");
	is_str(file, "cpu1", "JSON names the file of an example");
	is_u64((uint64_t)record, 1, "JSON numbers the record of an example");
	is_str(symbol, "do_it+0x10/0x20", "JSON names the symbol of an example's call site");
	json_decref(root);
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

static void test_usage(void)
{
	static const struct {
		const char *argv[4];
		int status;
		bool out, err;
		const char *what;
	} calls[] = {
		{{"check", "--help"}, 0, true, false, "--help exits with 0"},
		{{"check"}, 2, false, true, "a command line without a directory exits with 2"},
		{{"check", "a", "b"}, 2, false, true, "two directories exit with 2"},
		{{"check", "--nonsense", "a"}, 2, false, true, "an unknown option exits with 2"},
		{{"check", "/nonexistent"},
		 1,
		 false,
		 true,
		 "a directory that is not there exits with 1"},
		{{"check", "/dev/null"}, 1, false, true, "a file exits with 1"},
		{{"check", "/proc"}, 1, false, true, "a directory without a trace exits with 1"},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct verb_result result = verb_run(cmd_check, calls[i].argv);
		const char *line_end = strchr(result.err, '\n');

		is_u64((uint64_t)result.status, (uint64_t)calls[i].status, calls[i].what);
		ok(!!result.out[0] == calls[i].out && !!result.err[0] == calls[i].err &&
			   (!line_end || !line_end[1]),
		   "a verb prints to one stream only, and errors in one line");
		verb_result_deinit(&result);
	}
}

int main(void)
{
	test_classes();
	test_examples();
	test_instances("kmem:kmalloc,vcpu=0");
	test_instances("kmem if bytes_req > 4");
	test_cuts();
	test_verb();
	test_untraced();
	test_json();
	test_usage();
	return tap_done();
}
