/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profiles as documents: read, compared, ordered, printed; and what is no profile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/profile/profiles.h"
#include "tests/lib/json-faults.h"
#include "tests/lib/tap.h"

#define FUNCTION(name, hits, timed, total, max)                                        \
	"{\"function\":\"" name "\",\"address\":\"0xffffffff81000000\",\"hits\":" hits \
	",\"returns\":true,\"timed\":" timed ",\"total_ns\":" total ",\"max_ns\":" max "}"
#define INSTANCE(ended, functions)                                                   \
	"{\"name\":\"p\",\"spec\":\"profile:x\",\"ended\":" ended ",\"profiled\":9," \
	"\"functions\":[" functions "]}"
#define INSTANCES(instances) "{\"profiles\":[" instances "]}"
#define DOCUMENT(functions) INSTANCES(INSTANCE("false", functions))

static int parse(const char *text, struct profile_set *out)
{
	json_t *document = json_loads(text, 0, NULL);
	struct error err = {0};
	int ret = profile_set_parse(document, out, &err);

	json_decref(document);
	return ret;
}

static struct profile_set need(const char *text)
{
	struct profile_set set;

	if (parse(text, &set))
		abort();
	return set;
}

static void test_parse(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		"{\"profiles\":1}",
		"{\"profiles\":[1]}",
		"{\"profiles\":[{}]}",
		DOCUMENT("1"),
		DOCUMENT(FUNCTION("f", "-1", "0", "0", "0")),
		DOCUMENT(FUNCTION("f", "1", "0", "\"x\"", "0")),
		DOCUMENT("{\"function\":\"f\",\"buckets\":[1]}, {\"buckets\":2}"),
		"{\"profiles\":[{\"name\":\"p\",\"spec\":\"x\"}]}"};
	struct profile_set set;
	json_t *document;
	bool same;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(bad[i], &set) == -EINVAL && !set.n, "no profile: %s", bad[i]);
	set = need(DOCUMENT(FUNCTION("f\\u001b", "7", "5", "50", "20")));
	ok(set.n == 1 && set.v[0].n == 1 && set.v[0].v[0].hits == 7 &&
		   profile_mean_ns(&set.v[0].v[0]) == 10 && !strcmp(set.v[0].v[0].name, "f?"),
	   "a profile is read, without control characters");
	document = profile_set_json(&set);
	profile_set_deinit(&set);
	same = document && !profile_set_parse(document, &set, NULL) && set.v[0].v[0].timed == 5;
	ok(same && set.v[0].nr_profiled == 9, "and written again");
	json_decref(document);
	profile_set_deinit(&set);
}

static void test_subtract(void)
{
	struct profile_set before =
		need(DOCUMENT(FUNCTION("a", "10", "8", "100", "30") "," FUNCTION(
			"b", "5", "5", "50", "20") "," FUNCTION("c", "1", "1", "9", "9")));
	struct profile_set now = need(DOCUMENT(FUNCTION("c", "1", "1", "9", "9") "," FUNCTION(
		"d", "2", "2", "4", "3") "," FUNCTION("b", "9", "8", "90",
						      "20") "," FUNCTION("a", "11", "10", "190",
									 "60")));
	struct profile_set less;
	const struct profile_counts *p = &now.v[0];
	struct error err = {0};

	ok(!profile_set_subtract(&now, &before, NULL), "two moments are compared");
	profile_set_sort(&now, PROFILE_BY_HITS);
	ok(p->n == 3, "functions without calls in between are left out");
	ok(!strcmp(p->v[0].name, "b") && p->v[0].hits == 4 && p->v[0].timed == 3 &&
		   p->v[0].total_ns == 40 && p->v[0].max_unknown,
	   "a maximum that has not grown is not one of the calls in between");
	ok(!strcmp(p->v[1].name, "d") && p->v[1].hits == 2 && !p->v[1].max_unknown,
	   "a function that is new has all its calls");
	ok(!strcmp(p->v[2].name, "a") && p->v[2].hits == 1 && p->v[2].timed == 2 &&
		   p->v[2].max_ns == 60 && !p->v[2].max_unknown,
	   "a maximum that has grown is one of them");
	profile_set_deinit(&now);
	less = need(DOCUMENT(FUNCTION("a", "1", "1", "1", "1")));
	ok(profile_set_subtract(&less, &before, &err) == -EINVAL &&
		   strstr(err.text, "a has 1 hits, and had 10 before"),
	   "fewer hits than before are an error");
	profile_set_deinit(&less);
	profile_set_deinit(&before);
}

/* The hits of a function in the instances of one name and spec; those are "true" that have ended.
 */
#define ENDED(hits) INSTANCE("true", FUNCTION("a", hits, "0", "0", "0"))
#define GOES_ON(hits) INSTANCE("false", FUNCTION("a", hits, "0", "0", "0"))

static const struct {
	const char *before, *now;
	size_t n;
	uint64_t hits[3];
	const char *what;
} successions[] = {
	{INSTANCES(GOES_ON("10")),
	 INSTANCES(ENDED("12") "," GOES_ON("3")),
	 2,
	 {2, 3},
	 "an instance that has ended since, and its successor"},
	{INSTANCES(ENDED("10")),
	 INSTANCES(ENDED("10") "," GOES_ON("3")),
	 2,
	 {0, 3},
	 "an instance that had ended before, and its successor"},
	{INSTANCES(ENDED("10") "," GOES_ON("1")),
	 INSTANCES(ENDED("10") "," ENDED("5") "," GOES_ON("7")),
	 3,
	 {0, 4, 7},
	 "two that have ended, and their successor"},
	{INSTANCES(ENDED("10") "," GOES_ON("1")),
	 INSTANCES(GOES_ON("6")),
	 1,
	 {5},
	 "one that has ended is not listed any more"},
};

static void test_successions(void)
{
	for (size_t i = 0; i < sizeof(successions) / sizeof(successions[0]); i++) {
		struct profile_set before = need(successions[i].before);
		struct profile_set now = need(successions[i].now);
		struct error err = {0};

		ok(!profile_set_subtract(&now, &before, &err), "%s can be compared%s",
		   successions[i].what, err.text);
		for (size_t k = 0; k < successions[i].n; k++)
			is_u64(now.v[k].n ? now.v[k].v[0].hits : 0, successions[i].hits[k],
			       successions[i].what);
		profile_set_deinit(&now);
		profile_set_deinit(&before);
	}
}

static void test_order(void)
{
	static const char *const first[] = {"b", "a", "c", "d", "a"};
	struct profile_set set = need(DOCUMENT(FUNCTION("a", "90", "10", "100", "30") "," FUNCTION(
		"b", "5", "5", "500", "120") "," FUNCTION("c", "4", "1", "400",
							  "400") "," FUNCTION("d", "3", "2", "450",
									      "449")));

	for (enum profile_key key = PROFILE_BY_TOTAL; key <= PROFILE_BY_NAME; key++) {
		profile_set_sort(&set, key);
		is_str(set.v[0].v[0].name, first[key], profile_keys[key]);
	}
	profile_set_cut(&set, 0);
	ok(set.v[0].n == 4, "counts that are not cut have all functions");
	profile_set_cut(&set, 1);
	ok(set.v[0].n == 1 && !strcmp(set.v[0].v[0].name, first[PROFILE_BY_NAME]),
	   "those that are cut have the first");
	ok(profile_set_keep(&set, "q", NULL) == -ENOENT && !set.n, "no instance of that name");
	profile_set_deinit(&set);
}

static void test_text(void)
{
	static const char buckets[] = DOCUMENT(
		"{\"function\":\"slow\",\"address\":\"0x1\",\"hits\":3,\"returns\":true,"
		"\"timed\":2,\"total_ns\":3000000,\"max_ns\":2000000,\"buckets\":["
		"{\"from_ns\":699050,\"calls\":1},{\"from_ns\":1398101,\"calls\":1}]},"
		"{\"function\":\"leaf\",\"address\":\"0x2\",\"hits\":1000,\"returns\":false,"
		"\"timed\":0,\"total_ns\":0,\"max_ns\":0},"
		"{\"function\":\"jumps\",\"address\":\"0x3\",\"hits\":1000,\"returns\":true,"
		"\"timed\":989,\"total_ns\":989,\"max_ns\":1},"
		"{\"function\":\"open\",\"address\":\"0x4\",\"hits\":20,\"returns\":true,"
		"\"timed\":12,\"total_ns\":12,\"max_ns\":1}");
	const struct profile_text_options options = {.top = 0, .histogram = true};
	struct profile_set set = need(buckets);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		abort();
	profile_set_print(out, &set, &options);
	fclose(out);
	is_str(text,
	       "p: profile:x, 4 of 9 functions called\n"
	       "        HITS        TIMED      TOTAL       MEAN        MAX  FUNCTION\n"
	       "           3            2    3.00 ms    1.50 ms    2.00 ms  slow\n"
	       "      699 us              1  ########################################\n"
	       "     1.40 ms              1  ########################################\n"
	       "       1,000            -          -          -          -  leaf (hits only)\n"
	       "       1,000          989     989 ns       1 ns       1 ns  jumps (partly timed)\n"
	       "          20           12      12 ns       1 ns       1 ns  open\n",
	       "text");
	free(text);
	profile_set_deinit(&set);
}

static json_t *make(const void *set)
{
	return profile_set_json(set);
}

static void test_no_memory(void)
{
	struct profile_set set =
		need(DOCUMENT("{\"function\":\"f\",\"address\":\"0x1\",\"hits\":1,\"returns\":true,"
			      "\"timed\":1,\"total_ns\":5,\"max_ns\":5,"
			      "\"buckets\":[{\"from_ns\":4,\"calls\":1}]}"));

	is_u64(json_faults(make, &set), 0, "without memory there is no document");
	profile_set_deinit(&set);
}

int main(void)
{
	test_no_memory();
	test_parse();
	test_subtract();
	test_successions();
	test_order();
	test_text();
	return tap_done();
}
