/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sonde leaks, timeline and diff, on a trace in which each call site behaves in its own way. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

/* Call sites, in functions of 0x1000 bytes each. */
enum {
	LEAKY = 0x1010,   /* busy; 1 object in 1,000 stays */
	GROWING = 0x2010, /* never frees */
	WARM = 0x3010,    /* allocates early, for good */
	SAW = 0x4010,     /* frees all it has, again and again */
	DENTRY = 0x5010,  /* grows, in a cache that the guest can shrink */
	NEWEST = 0x6010,  /* begins at the end */
	AREA = 0x7010,    /* grows, in a cache that the guest empties in batches */
	LATE = 0x8010,    /* begins at two fifths, and never frees */
	WAVES = 0x9010,   /* has more and more, but frees the oldest: its second half is live */
	FEW = 0xb010,     /* keeps a small object each second: few, and hardly any memory */
	STEPS = 20000,
	LIVES = 20, /* steps of a busy object */
	MS = 1000000,
};

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"from_first_allocation\":true,\"vcpus\":[{}],"
	"\"caches\":[{\"id\":1,\"name\":\"dentry\",\"object_size\":192,\"size\":192},"
	"{\"id\":2,\"name\":\"vmap_area\",\"object_size\":64,\"size\":64}],"
	"\"symbols\":[{\"name\":\"leaky\",\"start\":\"0x1000\",\"size\":4096},"
	"{\"name\":\"growing\",\"start\":\"0x2000\",\"size\":4096},"
	"{\"name\":\"warm\",\"start\":\"0x3000\",\"size\":4096},"
	"{\"name\":\"saw\",\"start\":\"0x4000\",\"size\":4096},"
	"{\"name\":\"dentries\",\"start\":\"0x5000\",\"size\":4096},"
	"{\"name\":\"newest\",\"start\":\"0x6000\",\"size\":4096},"
	"{\"name\":\"areas\",\"start\":\"0x7000\",\"size\":4096},"
	"{\"name\":\"late\",\"start\":\"0x8000\",\"size\":4096},"
	"{\"name\":\"waves\",\"start\":\"0x9000\",\"size\":4096},"
	"{\"name\":\"free_reserved_area\",\"start\":\"0xa000\",\"size\":4096},"
	"{\"name\":\"few\",\"start\":\"0xb000\",\"size\":4096}]}";

struct maker {
	struct kmem_record *records;
	uint8_t *caches; /* ids, 2 bytes each */
	size_t n;
};

static void put(struct maker *maker, struct kmem_record record, uint8_t cache)
{
	maker->caches[2 * maker->n] = cache;
	maker->records[maker->n++] = record;
}

/* Objects have addresses by call site and number. */
static uint64_t address(unsigned int site, unsigned int i)
{
	return 0xffff888000000000 + ((uint64_t)site << 24) + (uint64_t)i * 64;
}

static void alloc(struct maker *maker, unsigned int site, unsigned int i, int64_t ns)
{
	const uint8_t cache = site == DENTRY ? 1 : site == AREA ? 2 : 0;

	put(maker,
	    make_alloc(cache ? KMEM_TYPE_CACHE : KMEM_TYPE_KMALLOC, address(site, i), site, 60, 64,
		       ns),
	    cache);
}

static void release(struct maker *maker, unsigned int site, unsigned int i, int64_t ns)
{
	put(maker, make_free(KMEM_TYPE_KMALLOC, address(site, i), site, ns), 0);
}

static void step(struct maker *maker, unsigned int i, unsigned int leak_every)
{
	int64_t ns = (int64_t)i * MS;

	alloc(maker, LEAKY, i, ns);
	if (i >= LIVES && (i - LIVES) % leak_every)
		release(maker, LEAKY, i - LIVES, ns + 1);
	if (i % 200 == 0)
		alloc(maker, GROWING, i, ns + 2);
	if (i < STEPS / 8 && i % 4 == 0)
		alloc(maker, WARM, i, ns + 3);
	alloc(maker, SAW, i, ns + 4);
	for (unsigned int at = i - 499; i % 500 == 499 && at <= i; at++)
		release(maker, SAW, at, ns + 5);
	if (i % 50 == 0)
		alloc(maker, DENTRY, i, ns + 6);
	if (i % 100 == 0)
		alloc(maker, AREA, i, ns + 6);
	if (i >= STEPS / 5 * 2 && i % 500 == 0)
		alloc(maker, LATE, i, ns + 3);
	if (i % 10 == 0)
		alloc(maker, WAVES, i, ns + 3);
	if (i % 20 == 0)
		release(maker, WAVES, i / 2, ns + 4);
	if (i % 1000 == 0)
		put(maker, make_alloc(KMEM_TYPE_KMALLOC, address(FEW, i), FEW, 8, 8, ns + 3), 0);
	if (i > STEPS / 20 * 19)
		alloc(maker, NEWEST, i, ns + 7);
}

static void put_trace(const char *dir, unsigned int leak_every)
{
	const size_t room = 8 * STEPS;
	struct maker maker = {calloc(room, sizeof(struct kmem_record)), calloc(room, 2), 0};

	if (!maker.records || !maker.caches)
		abort();
	for (unsigned int i = 0; i < STEPS; i++)
		step(&maker, i, leak_every);
	stream_put(dir, 0, maker.records, maker.n);
	file_put(dir, "caches0", maker.caches, 2 * maker.n);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
	free(maker.records);
	free(maker.caches);
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* The item of a list whose name begins so. */
static const json_t *find(const json_t *list, const char *key, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (!strncmp(text(item, key), name, strlen(name)))
			return item;
	}
	return NULL;
}

static double real(const json_t *object, const char *key)
{
	return json_real_value(json_object_get(object, key));
}

/* The line through live bytes. */
static void test_growth(const json_t *sites)
{
	const json_t *growing = find(sites, "symbol", "growing");
	const json_t *warm = find(sites, "symbol", "warm");

	ok(real(growing, "growth_per_second") > 315 && real(growing, "growth_per_second") < 325 &&
		   real(growing, "growth_r2") > 0.99 &&
		   real(growing, "growth_error_per_second") < 5,
	   "5 objects of 64 bytes per second are on a straight line");
	ok(real(warm, "growth_r2") < 0.5 &&
		   real(warm, "growth_error_per_second") > real(warm, "growth_per_second") / 5,
	   "what came early is not");
	ok(number(growing, "mean_age_ns") > UINT64_C(9900) * MS &&
		   number(growing, "mean_age_ns") < UINT64_C(10100) * MS,
	   "the mean age is half of the time");
}

/* Live objects of an age. */
static void test_leaks_older(const char *dir)
{
	json_t *root = verb_json(
		cmd_leaks, (const char *const[]){"leaks", "--json", "--older", "10s", dir, NULL});
	const json_t *sites = json_object_get(root, "call_sites");
	const json_t *growing = find(sites, "symbol", "growing");

	is_u64(number(growing, "live_objects"), 50, "--older counts what is at least so old");
	is_str(text(growing, "verdict"), "only grows", "the verdict is by all");
	ok(number(growing, "mean_age_ns") > UINT64_C(14900) * MS, "the mean age is that of these");
	ok(!find(sites, "symbol", "newest"), "a site with nothing so old is not listed");
	json_decref(root);
}

static void test_leaks(const char *dir)
{
	static const struct {
		const char *name, *verdict, *what;
	} rows[] = {
		{"leaky", "leak", "a site that keeps 1 object in 1,000 leaks"},
		{"growing", "only grows", "a site that frees nothing only grows"},
		{"late", "only grows", "so does one that begins within the window"},
		{"few", "unclear", "a few small objects may be chance"},
		{"warm", "settled", "what came early has settled"},
		{"dentries", "reclaimable", "what the guest can shrink is reclaimable"},
		{"areas", "reclaimable", "what the guest frees in batches is reclaimable"},
		{"newest", "recent", "what came lately is recent"},
	};
	json_t *root = verb_json(cmd_leaks, (const char *const[]){"leaks", "--json", dir, NULL});
	const json_t *sites = json_object_get(root, "call_sites"), *first;

	first = json_array_get(sites, 0);
	is_str(text(first, "symbol"), "leaky+0x10/0x1000", "the leak is named first");
	is_u64(number(first, "live_objects"), 20 + 20,
	       "it has the objects that stay, and those that are in use");
	is_u64(number(first, "old_objects"), 19, "of these, those that are old");
	ok(number(first, "bytes_per_second") >= 60 && number(first, "bytes_per_second") <= 70,
	   "it has a rate: an object of 64 bytes in a second");
	test_growth(sites);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_str(text(find(sites, "symbol", rows[i].name), "verdict"), rows[i].verdict,
		       rows[i].what);
	ok(!find(sites, "symbol", "saw"), "a site without live objects is not listed");
	json_decref(root);
}

static void test_leaks_text(const char *dir)
{
	struct verb_result result = verb_run(cmd_leaks, (const char *const[]){"leaks", dir, NULL});

	ok(strstr(result.out, "leaky+0x10/0x1000") && strstr(result.out, "growing+0x10/0x1000"),
	   "text lists the suspicious call sites");
	ok(!strstr(result.out, "warm+0x10"), "and no others");
	ok(strstr(result.out, "--filter 'call_site.function == \"leaky\"'"),
	   "the next command quotes the function, as names of modules have blanks");
	ok(strstr(result.out, "  settled          1, "), "verdicts count their call sites");
	verb_result_deinit(&result);
}

/* Until 10 s have passed, what is kept may only be freed late. */
static void test_short(const char *dir)
{
	const char *const leaks_argv[] = {"leaks", "--time", "2,11", "--verbose", dir, NULL};
	const char *const argv[] = {"report", "--time", "2,11", dir, NULL};
	struct verb_result leaks = verb_run(cmd_leaks, leaks_argv);
	struct verb_result report = verb_run(cmd_report, argv);

	ok(strstr(leaks.out, "\n  only grows       0, ") &&
		   strstr(leaks.out, "\nTime          too short to tell what only grows: that "),
	   "leaks says that the time is too short");
	ok(strstr(report.out, "\nGrows         too short to tell: that takes 10 s\n"),
	   "and so does the report");
	verb_result_deinit(&leaks);
	verb_result_deinit(&report);
}

/* The first screen of the report names it, too, though it does not stand out by its growth. */
static void test_leak_in_report(const char *dir)
{
	struct verb_result result = verb_run(
		cmd_report, (const char *const[]){"report", "--by", "callsite", dir, NULL});

	ok(strstr(result.out, "\nLeaks ") && strstr(result.out, "leaky+0x10/0x1000, 99.8"),
	   "the report names the leak");
	ok(strstr(result.out, "\nNext          sonde leaks "), "and the command that shows more");
	verb_result_deinit(&result);
}

/* Lines of growth are those that sonde leaks has, too. */
static void test_growth_in_report(const char *dir)
{
	static const struct {
		const char *filter, *line, *next, *what;
	} rows[] = {
		{"call_site.function == \"growing\"",
		 "\nGrows             319 B/s  growing+0x10/0x1000, +-0 B, R2 1.00, 6.2 KiB live\n",
		 "sonde leaks ", "what only grows has a line, with an error"},
		{"call_site.function == \"dentries\"",
		 "\nGrows           1.2 KiB/s  dentries+0x10/0x1000 (dentry), +-",
		 "sonde timeline ", "so has what the guest can shrink"},
		{"call_site.function == \"waves\"",
		 "\nGrows         unknown: nothing says when init began\n", "sonde timeline ",
		 "what sonde leaks does not suspect has none"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result = verb_run(
			cmd_report, (const char *const[]){"report", "-a", "overview", "--filter",
							  rows[i].filter, dir, NULL});
		const char *next = strstr(result.out, "\nNext          ");

		if (!ok(strstr(result.out, rows[i].line), "%s", rows[i].what))
			tap_diag("%s", result.out);
		ok(next && strstr(next, rows[i].next), "the next command shows more of it");
		verb_result_deinit(&result);
	}
}

static void test_quiet_boot(const char *dir)
{
	struct verb_result result = verb_run(
		cmd_leaks, (const char *const[]){"leaks", "--filter",
						 "call_site.function == \"warm\"", dir, NULL});

	ok(strstr(result.out, "\nNext          sonde leaks --since init --filter ") &&
		   strstr(result.out,
			  "\n              leaves the boot out, from which on nothing grows\n"),
	   "where boot hides what grows, the next command leaves it out");
	verb_result_deinit(&result);
}

static void test_timeline(const char *dir)
{
	json_t *root = verb_json(cmd_timeline, (const char *const[]){"timeline", "--json", "--top",
								     "10", dir, NULL});
	const json_t *rows = json_object_get(root, "timeline"), *sites, *saw;
	uint64_t sum = 0;
	size_t i;

	is_u64(json_array_size(rows), 10, "the time is divided as asked for");
	ok(number(json_array_get(rows, 9), "live_bytes") >
		   number(json_array_get(rows, 0), "live_bytes"),
	   "live bytes grow");
	sites = json_object_get(root, "call_sites");
	json_array_foreach(sites, i, saw) sum += number(saw, "bytes_at_peak");
	is_u64(sum, number(root, "peak_bytes"), "the call sites make up the peak");
	saw = find(sites, "symbol", "saw");
	ok(number(saw, "bytes_at_peak") >= 499 * 64, "all of the saw's tooth is in the peak");
	is_u64(number(saw, "live_bytes"), 0, "and gone at the end");
	saw = json_object_get(find(sites, "symbol", "growing"), "course");
	ok(json_array_size(saw) == 32 && json_integer_value(json_array_get(saw, 31)) == 100 * 64 &&
		   json_integer_value(json_array_get(saw, 15)) < 56 * 64,
	   "a call site has its course");
	json_decref(root);
}

/* What only lives on in the part that was chosen has its course there, too. */
static void test_still_sites(const char *dir)
{
	json_t *root = verb_json(cmd_timeline, (const char *const[]){"timeline", "--json", "--time",
								     "10,15", dir, NULL});
	const json_t *warm = find(json_object_get(root, "call_sites"), "symbol", "warm");
	const json_t *course = json_object_get(warm, "course");
	const uint64_t live = number(warm, "live_bytes");

	ok(live && number(warm, "peak_bytes") == live, "its peak is what is live");
	ok(json_array_size(course) == 32 &&
		   (uint64_t)json_integer_value(json_array_get(course, 0)) == live,
	   "and so is its course");
	json_decref(root);
}

/* A time that is shown can be asked for: all are of the trace clock. */
static void test_timeline_clock(const char *dir)
{
	const char *const argv[] = {"timeline", "--time", "10,15", "-n", "5", dir, NULL};
	const char *const json_argv[] = {"timeline", "--time", "10,15", "-n",
					 "5",        "--json", dir,     NULL};
	struct verb_result result = verb_run(cmd_timeline, argv);
	json_t *root = verb_json(cmd_timeline, json_argv);
	const json_t *row = json_array_get(json_object_get(root, "timeline"), 4);

	ok(strstr(result.out, " s, from 10.000 to 15.000 s\n"), "the head has begin and end");
	ok(strstr(result.out, "\nSECONDS ") && strstr(result.out, "\n 11.000  #") &&
		   strstr(result.out, "\n 15.000  #"),
	   "rows have the seconds of the trace clock");
	ok(strstr(result.out, "\nPeak ") && strstr(result.out, " at 14.9"), "so has the peak");
	is_u64(number(root, "begin_ns"), UINT64_C(10000) * MS, "JSON has the begin");
	is_u64(number(row, "ns"), number(root, "duration_ns"), "and for each row the time since");
	is_u64(number(row, "time_ns"), number(root, "end_ns"), "and the time of the clock");
	verb_result_deinit(&result);
	json_decref(root);
}

/* Each is what its verb shows. */
static void test_sections(const char *dir)
{
	json_t *both = verb_json(cmd_report, (const char *const[]){"report", "--json", "-a",
								   "leaks,timeline", dir, NULL});
	json_t *leaks = verb_json(cmd_leaks, (const char *const[]){"leaks", "--json", dir, NULL});
	json_t *section = json_object_get(both, "leaks");
	struct verb_result result = verb_run(
		cmd_report, (const char *const[]){"report", "-a", "timeline,leaks", dir, NULL});
	const char *first = strstr(result.out, "timeline: live bytes over time\n\n");
	const char *second =
		strstr(result.out, "\n\nleaks: what is live, and whether it looks like a leak\n\n");

	ok(json_is_array(json_object_get(json_object_get(both, "timeline"), "timeline")),
	   "each analysis has its key");
	ok(json_equal(json_object_get(section, "call_sites"), json_object_get(leaks, "call_sites")),
	   "below it is what its verb prints");
	ok(number(both, "version") == 1 && json_is_boolean(json_object_get(both, "complete")) &&
		   !json_object_get(both, "call_sites"),
	   "what is said of the trace stands beside them");
	ok(first == result.out && second, "text has a title for each, in the order named");
	verb_result_deinit(&result);
	json_decref(both);
	json_decref(leaks);
}

static void test_diff(const char *dir, const char *worse)
{
	json_t *root =
		verb_json(cmd_diff, (const char *const[]){"diff", "--json", dir, worse, NULL});
	const json_t *changes = json_object_get(root, "changes"), *first;

	first = json_array_get(changes, 0);
	is_str(text(first, "name"), "leaky+0x10", "the change is named first");
	is_str(text(first, "text"), "leaky+0x10/0x1000", "as sonde report writes it, too");
	ok(json_is_true(json_object_get(first, "significant")), "it is significant");
	is_u64(number(json_object_get(first, "a"), "live_bytes"), 40 * 64, "A has its live bytes");
	is_u64(number(json_object_get(first, "b"), "live_bytes"), 220 * 64, "B has its live bytes");
	ok(json_is_false(json_object_get(json_array_get(changes, 1), "significant")),
	   "nothing else is");
	json_decref(root);
}

/* All allocations of the trace are of kmalloc and of caches. */
static void test_diff_type(const char *dir, const char *worse)
{
	json_t *all =
		verb_json(cmd_diff, (const char *const[]){"diff", "--json", dir, worse, NULL});
	json_t *caches = verb_json(cmd_diff, (const char *const[]){"diff", "--json", "--type",
								   "cache", dir, worse, NULL});
	json_t *kmalloc = verb_json(cmd_diff, (const char *const[]){"diff", "--json", "--type",
								    "kmalloc", dir, worse, NULL});
	const char *const sides[] = {"a", "b"};

	for (size_t i = 0; i < 2; i++) {
		uint64_t part = number(json_object_get(caches, sides[i]), "live_bytes");

		is_u64(part, (STEPS / 50 + STEPS / 100) * UINT64_C(64),
		       "--type cache has the live bytes of caches only");
		is_u64(number(json_object_get(kmalloc, sides[i]), "live_bytes"),
		       number(json_object_get(all, sides[i]), "live_bytes") - part,
		       "and --type kmalloc the rest");
	}
	json_decref(all);
	json_decref(caches);
	json_decref(kmalloc);
}

static void test_diff_parts(const char *dir)
{
	const char *const argv[] = {"diff",     "--json", "--time-a", ",2",
				    "--time-b", "10,12",  dir,        NULL};
	json_t *root = verb_json(cmd_diff, argv);
	const json_t *warm = find(json_object_get(root, "changes"), "name", "warm+0x10");

	ok(json_is_true(json_object_get(warm, "significant")) &&
		   number(json_object_get(warm, "a"), "hits") == 500 &&
		   number(json_object_get(warm, "b"), "hits") == 0,
	   "two parts of a trace are compared");
	json_decref(root);
}

/* What the text says beside the figures. */
static void test_diff_text(const char *dir, const char *worse)
{
	const char *const parts[] = {"diff", "--time-a", ",6", dir, NULL};
	struct verb_result result =
		verb_run(cmd_diff, (const char *const[]){"diff", dir, worse, NULL});

	ok(strstr(result.out, "\nB ") && strstr(result.out, " s, from 0.000 to 20.000 s, "),
	   "the head has begin and end");
	ok(strstr(result.out, "  leaky+0x10/0x1000  "),
	   "call sites are written as by sonde report");
	ok(!strstr(result.out, "\nKernels "), "nothing is said of kernels that are the same");
	is_str(result.err, "", "two whole traces need no note");
	verb_result_deinit(&result);
	result = verb_run(cmd_diff, parts);
	ok(!result.status &&
		   !strncmp(result.err, "sonde diff: --time-b is not given: B is the whole", 49),
	   "a part that is compared with the whole is noted");
	verb_result_deinit(&result);
}

static void test_part_of_end(const char *dir)
{
	struct verb_result result =
		verb_run(cmd_diff, (const char *const[]){"diff", "--time-b", ",6", dir, NULL});

	ok(!result.status && strstr(result.err, "--time-a is not given: A is the whole trace"),
	   "a part that begins with the trace is compared with the whole");
	verb_result_deinit(&result);
	result = verb_run(cmd_diff, (const char *const[]){"diff", "--time-a", "6,", "--time-b",
							  ",6", dir, NULL});
	ok(!result.status, "so is what came after with what came before");
	verb_result_deinit(&result);
}

static void test_diff_groups(const char *dir, const char *worse)
{
	const char *const argv[] = {"diff",     "--json",
				    "--by",     "cache,callsite",
				    "--filter", "bytes_req > 0 && cache == \"dentry\"",
				    "--vcpu",   "0",
				    dir,        worse,
				    NULL};
	json_t *root = verb_json(cmd_diff, argv);
	const json_t *changes = json_object_get(root, "changes");

	is_u64(json_array_size(changes), 1, "--filter chooses what is compared");
	is_str(text(json_array_get(changes, 0), "name"), "dentry, dentries+0x10",
	       "--by cache,callsite names both");
	json_decref(root);
}

static void test_usage(void)
{
	static const struct {
		int (*verb)(int, char **);
		const char *argv[5], *err, *what;
	} calls[] = {
		{cmd_leaks, {"leaks"}, "name one trace", "leaks without a trace"},
		{cmd_timeline, {"timeline", "a", "b"}, "name one trace", "timeline of two traces"},
		{cmd_diff, {"diff"}, "name one or two", "diff without a trace"},
		{cmd_diff,
		 {"diff", "a"},
		 "name a second trace, or parts",
		 "diff of one whole trace"},
		{cmd_report,
		 {"report", "--by", "cache,cache", "a"},
		 "--by names cache twice",
		 "report by one group twice"},
		{cmd_report,
		 {"report", "-m", "live,wasted,live", "a"},
		 "--measures names live twice",
		 "report of a measure twice"},
		{cmd_report,
		 {"report", "--older", "20000h", "a"},
		 "--older takes a time from 1ms to 10000h, ",
		 "report of what is too old"},
		{cmd_timeline,
		 {"timeline", "-n", "0", "a"},
		 "-n takes a number from 1 to 1024",
		 "timeline without rows"},
		{cmd_timeline,
		 {"timeline", "-n", "5000", "a"},
		 "-n takes a number from 1 to 1024",
		 "timeline of too many rows"},
		{cmd_diff,
		 {"diff", "--by", "color"},
		 "--by takes callsite, cache, ",
		 "diff by what it does not compare"},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct verb_result result = verb_run(calls[i].verb, calls[i].argv);

		ok(result.status == 2 && strstr(result.err, calls[i].err) && !result.out[0],
		   "%s exits with 2", calls[i].what);
		verb_result_deinit(&result);
	}
}

int main(void)
{
	struct scratch dir = scratch_make(), worse = scratch_make();

	put_trace(dir.path, 1000);
	put_trace(worse.path, 100);
	test_leaks(dir.path);
	test_leaks_older(dir.path);
	test_leaks_text(dir.path);
	test_short(dir.path);
	test_leak_in_report(dir.path);
	test_growth_in_report(dir.path);
	test_quiet_boot(dir.path);
	test_timeline(dir.path);
	test_timeline_clock(dir.path);
	test_still_sites(dir.path);
	test_sections(dir.path);
	test_diff(dir.path, worse.path);
	test_diff_type(dir.path, worse.path);
	test_diff_parts(dir.path);
	test_diff_text(dir.path, worse.path);
	test_part_of_end(dir.path);
	test_diff_groups(dir.path, worse.path);
	test_usage();
	scratch_remove(&dir);
	scratch_remove(&worse);
	return tap_done();
}
