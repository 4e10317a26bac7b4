/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Traces with more call sites than there is room for courses: the sums have all of them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/sites.h"
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { BEYOND = 1000, NR_SITES = SITES_WITH_COURSE + BEYOND, BYTES = 64 };

static const char sidecar[] = "{\"version\":1,\"complete\":true,\"vcpus\":[{}]}";

/* Each call site keeps an object, and frees a second one. */
static void put_trace(const char *dir)
{
	struct kmem_record *records = calloc(3 * NR_SITES, sizeof(*records));
	size_t n = 0;

	if (!records)
		abort();
	for (uint64_t i = 0; i < NR_SITES; i++) {
		const uint64_t site = 0xffffffff81000000 + 16 * i,
			       ptr = 0xffff888000000000 + 256 * i;
		const int64_t ns = (int64_t)i * 1000;

		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, site, BYTES, BYTES, ns);
		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr + 128, site, BYTES, BYTES, ns);
		records[n++] = make_free(KMEM_TYPE_KMALLOC, ptr + 128, site, ns + 1);
	}
	stream_put(dir, 0, records, n);
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
	free(records);
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void test_report(const char *dir)
{
	json_t *root = verb_json(cmd_report,
				 (const char *const[]){"report", "--json", "--top", "1", "--filter",
						       "bytes_req > 0", dir, NULL});

	is_u64(number(json_object_get(root, "memory"), "selected_bytes"),
	       (uint64_t)NR_SITES * BYTES, "the selected bytes are those of all call sites");
	is_u64(number(root, "call_sites_without_course"), BEYOND,
	       "JSON has the number of the call sites without a course");
	json_decref(root);
}

static void test_timeline(const char *dir)
{
	json_t *root =
		verb_json(cmd_timeline, (const char *const[]){"timeline", "--json", "--filter",
							      "bytes_req > 0", dir, NULL});

	is_u64(number(root, "peak_bytes"), (uint64_t)NR_SITES * BYTES + BYTES,
	       "the peak is that of all call sites");
	json_decref(root);
}

static void test_leaks(const char *dir)
{
	struct verb_result result = verb_run(cmd_leaks, (const char *const[]){"leaks", dir, NULL});

	ok(strstr(result.out, "\nCall sites    156,344 with live memory"),
	   "sonde leaks counts all call sites");
	ok(strstr(result.out, "\nLimit         1,000 call sites beyond the first 155,344 have sums "
			      "only"),
	   "and says how many have sums only");
	verb_result_deinit(&result);
}

int main(void)
{
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	test_report(dir.path);
	test_timeline(dir.path);
	test_leaks(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
