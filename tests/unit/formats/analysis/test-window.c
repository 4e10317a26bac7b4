/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happened before the time that was chosen is live in it, and not counted. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { BURST = 0x1010, STILL = 0x2010, BYTES = 64, NR_BURST = 4 };

#define SECOND INT64_C(1000000000)

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"vcpus\":[{}],"
	"\"symbols\":[{\"name\":\"burst\",\"start\":\"0x1000\",\"size\":4096},"
	"{\"name\":\"still\",\"start\":\"0x2000\",\"size\":4096}]}";

struct maker {
	struct kmem_record records[2000];
	size_t n;
};

static void alloc(struct maker *m, unsigned int site, uint64_t ptr, uint64_t bytes, int64_t ns)
{
	m->records[m->n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, site, bytes, bytes, ns);
}

static void release(struct maker *m, uint64_t ptr, int64_t ns)
{
	m->records[m->n++] = make_free(KMEM_TYPE_KMALLOC, ptr, BURST, ns);
}

static void put_trace(const char *dir, const struct maker *m)
{
	stream_put(dir, 0, m->records, m->n);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static json_t *report(const char *dir, const char *by, const char *time)
{
	return verb_json(cmd_report, (const char *const[]){"report", "--json", "--by", by, "--time",
							   time, dir, NULL});
}

/* The group whose member begins so. */
static const json_t *find(const json_t *list, const char *key, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *value = json_string_value(json_object_get(item, key));

		if (value && !strncmp(value, text, strlen(text)))
			return item;
	}
	return NULL;
}

/* --- peaks ----------------------------------------------------------------------------------- */

/* Until 5 s the burst has four objects, then one; at 7 s it has one more for a while. */
static void put_burst(const char *dir)
{
	struct maker m = {.n = 0};

	for (unsigned int i = 0; i < NR_BURST; i++)
		alloc(&m, BURST, 0x1000 * (i + 1), BYTES, SECOND);
	alloc(&m, STILL, 0x9000, 2 * BYTES, 2 * SECOND);
	alloc(&m, STILL, 0xa000, 2 * BYTES, 2 * SECOND);
	release(&m, 0x9000, 3 * SECOND);
	for (unsigned int i = 1; i < NR_BURST; i++)
		release(&m, 0x1000 * (i + 1), 5 * SECOND);
	alloc(&m, BURST, 0x2000, BYTES, 7 * SECOND);
	release(&m, 0x2000, 8 * SECOND);
	put_trace(dir, &m);
}

static void test_peaks(const char *dir)
{
	static const struct {
		const char *time;
		uint64_t burst, still;
		const char *what;
	} rows[] = {
		{",", 4, 4, "of the whole trace"},
		{"4,6", 4, 2, "of a time that begins with it"},
		{"6,", 2, 2, "of a time behind it"},
		{"7.5,", 2, 2, "of a time with frees only"},
		{"5.5,6.5", 1, 2, "of a time without events"},
	};

	put_burst(dir);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *by_site = report(dir, "callsite", rows[i].time);
		json_t *by_size = report(dir, "size", rows[i].time);
		const json_t *sites = json_object_get(by_site, "call_sites");
		const json_t *sizes = json_object_get(by_size, "sizes"), *size;
		size_t k;

		is_u64(number(find(sites, "symbol", "burst"), "peak_bytes"),
		       rows[i].burst * BYTES, rows[i].what);
		is_u64(number(find(sites, "symbol", "still"), "peak_bytes"),
		       rows[i].still * BYTES, "likewise where nothing happens in it");
		json_array_foreach(sizes, k, size)
			is_u64(number(size, "peak_bytes"),
			       (number(size, "bytes") == BYTES ? rows[i].burst : rows[i].still) *
				       BYTES,
			       "likewise by size");
		json_decref(by_site);
		json_decref(by_size);
	}
}

/* --- frees of what is older ------------------------------------------------------------------ */

enum { OLD = 200, NEW = 256 };

/* Just before 10 s come 200 objects, which go soon after it. From then on 8 come each second, which
 * stay. */
static void put_growth(const char *dir)
{
	struct maker m = {.n = 0};

	for (unsigned int i = 0; i < OLD; i++)
		alloc(&m, BURST, 0x100000 + i * 0x100, BYTES, 10 * SECOND - OLD + i);
	for (unsigned int i = 0; i < OLD; i++)
		release(&m, 0x100000 + i * 0x100, 10 * SECOND + i);
	for (unsigned int i = 0; i < NEW; i++)
		alloc(&m, BURST, 0x200000 + i * 0x100, BYTES, 10 * SECOND + (i + 1) * SECOND / 8);
	put_trace(dir, &m);
}

static void test_old_frees(const char *dir)
{
	static const struct {
		const char *time, *verdict;
		double freed;
	} rows[] = {{"10,", "only grows", 0}, {",", "unclear", 100.0 * OLD / (OLD + NEW)}};

	put_growth(dir);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *root =
			verb_json(cmd_leaks, (const char *const[]){"leaks", "--json", "--time",
								   rows[i].time, dir, NULL});
		const json_t *site = json_array_get(json_object_get(root, "call_sites"), 0);
		const double freed = json_real_value(json_object_get(site, "freed_percent"));

		ok(freed > rows[i].freed - 0.01 && freed < rows[i].freed + 0.01,
		   "%s: of what was allocated in the time %.2f %% is freed", rows[i].time,
		   rows[i].freed);
		if (!i)
			is_str(json_string_value(json_object_get(site, "verdict")), rows[i].verdict,
			       "frees of what is older do not make a leak");
		json_decref(root);
	}
}

/* --- nothing --------------------------------------------------------------------------------- */

static void test_empty_verdicts(const char *dir, const char *time)
{
	json_t *root = verb_json(
		cmd_leaks, (const char *const[]){"leaks", "--json", "--time", time, dir, NULL});
	const json_t *sites = json_object_get(root, "call_sites");
	struct verb_result leaks =
		verb_run(cmd_leaks, (const char *const[]){"leaks", "--time", time, dir, NULL});
	struct verb_result report =
		verb_run(cmd_report, (const char *const[]){"report", "--time", time, dir, NULL});

	ok(json_array_size(sites) == 2 &&
		   !strcmp("unclear",
			   json_string_value(json_object_get(json_array_get(sites, 0), "verdict"))),
	   "%s: what is live is of no verdict", time);
	ok(strstr(leaks.out, "too short to tell") && !strstr(leaks.out, "nothing leaks"),
	   "it is not said to leak nothing");
	ok(strstr(report.out, "too short to tell"), "nor to grow nothing");
	verb_result_deinit(&leaks);
	verb_result_deinit(&report);
	json_decref(root);
}

static void test_empty_rows(const char *dir, const char *time, size_t rows)
{
	json_t *root = verb_json(cmd_timeline, (const char *const[]){"timeline", "--json", "--time",
								     time, dir, NULL});
	const json_t *steps = json_object_get(root, "timeline"), *step;
	bool alike = true;
	size_t i;

	json_array_foreach(steps, i, step) alike &= number(step, "live_bytes") == 3 * BYTES;
	ok(json_array_size(steps) == rows && alike, "%s: rows have what is live", time);
	is_u64(number(root, "peak_bytes"), 3 * BYTES, "and that is the peak");
	json_decref(root);
}

static void test_empty(const char *dir)
{
	put_burst(dir);
	test_empty_verdicts(dir, "100,");
	test_empty_verdicts(dir, "5.5,6.5");
	test_empty_rows(dir, "100,", 1);
	test_empty_rows(dir, "5.5,6.5", 20);
}

int main(void)
{
	struct scratch dir = scratch_make();

	test_peaks(dir.path);
	test_old_frees(dir.path);
	test_empty(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
