/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where frees were not recorded, nothing is said to leak or to grow. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { SITE = 0x1010, BYTES = 64, OBJECTS = 2000, EVERY = 10 };

static struct scratch dir;

/*
 * Objects of 20 s, one of `every` stays; 0: all do. Each `again`th of those that stay has the
 * address of the one before, whose free is missing; 0: none has.
 */
static void put_stream(size_t every, size_t again)
{
	static struct kmem_record records[2 * OBJECTS];
	const int64_t step_ns = INT64_C(20000000000) / OBJECTS;
	size_t n = 0;

	for (size_t i = 0; i < OBJECTS; i++) {
		const int64_t ns = (int64_t)i * step_ns + 1;
		const bool stays = !every || !(i % every);
		const bool is_again = again && stays && i / every % again == 1;
		const uint64_t ptr = 0x10000 + (is_again ? i - every : i) * BYTES;

		records[n++] = make_alloc(KMEM_TYPE_KMALLOC, ptr, SITE, BYTES, BYTES, ns);
		if (!stays)
			records[n++] = make_free(KMEM_TYPE_KMALLOC, ptr, SITE, ns + 1);
	}
	stream_put(dir.path, 0, records, n);
}

static void put_sidecar(const char *spec, const char *part)
{
	char text[500];

	snprintf(text, sizeof(text),
		 "{\"version\":1,\"complete\":true,\"part\":\"%s\",\"vcpus\":[{}],"
		 "\"instances\":[{\"name\":\"kmem\",\"spec\":\"%s\",\"vcpus\":[{}]}],"
		 "\"symbols\":[{\"name\":\"site\",\"start\":\"0x1000\",\"size\":4096}]}",
		 part, spec);
	file_put(dir.path, "sonde.json", text, strlen(text));
}

static json_t *json_of(int (*verb)(int, char **), const char *name)
{
	return verb_json(verb, (const char *const[]){name, "--json", dir.path, NULL});
}

/* Of the only call site. */
static const char *verdict_of(const json_t *leaks)
{
	const json_t *site = json_array_get(json_object_get(leaks, "call_sites"), 0);
	const char *verdict = json_string_value(json_object_get(site, "verdict"));

	return verdict ? verdict : "";
}

static bool is_growth_null(const json_t *leaks)
{
	const json_t *site = json_array_get(json_object_get(leaks, "call_sites"), 0);

	return json_is_null(json_object_get(site, "growth_per_second")) &&
	       json_is_null(json_object_get(site, "growth_r2")) &&
	       json_is_null(json_object_get(site, "bytes_per_second"));
}

static bool is_bounded(const json_t *root)
{
	return json_is_true(json_object_get(json_object_get(root, "bound"), "bounded"));
}

static void says(int (*verb)(int, char **), const char *name, const char *text, bool expected)
{
	struct verb_result result = verb_run(verb, (const char *const[]){name, dir.path, NULL});

	if (!ok(!strstr(result.out, text) == !expected, "sonde %s %s: %s", name,
		expected ? "says" : "does not say", text))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
}

/* A condition may take allocations without their frees. */
static void test_specs(void)
{
	static const struct {
		const char *spec, *part, *verdict;
	} rows[] = {
		{"kmem", "", "only grows"},
		{"kmem:kmalloc,pid", "", "only grows"},
		{"kmem if gfp_flags & GFP_ATOMIC", "", "unknown"},
		{"kmem:vcpu=0", "", "unknown"},
		{"kmem", "from 1.0 s on", "only grows"},
		{"kmem", "filter gfp_flags & GFP_ATOMIC", "unknown"},
		{"kmem", "from 1.0 s on, vCPU 1", "unknown"},
		{"kmem", "\",\"chosen_events\":true,\"a\":\"", "unknown"},
		{"kmem", "vCPU 1\",\"chosen_events\":false,\"a\":\"", "only grows"},
	};

	put_stream(0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool is_unknown = !strcmp(rows[i].verdict, "unknown");
		json_t *leaks, *report;

		put_sidecar(rows[i].spec, rows[i].part);
		leaks = json_of(cmd_leaks, "leaks");
		report = json_of(cmd_report, "report");
		ok(!strcmp(verdict_of(leaks), rows[i].verdict), "'%s', part '%s': %s", rows[i].spec,
		   rows[i].part, rows[i].verdict);
		ok(is_growth_null(leaks) == is_unknown && is_bounded(leaks) == !is_unknown &&
			   is_bounded(report) == !is_unknown,
		   "so are growth and bound");
		ok(json_array_size(json_object_get(report, "growing")) == !is_unknown,
		   "so is what grows");
		json_decref(leaks);
		json_decref(report);
	}
	put_sidecar("kmem if gfp_flags & GFP_ATOMIC", "");
	says(cmd_leaks, "leaks", "Bound         unknown: ", true);
	says(cmd_leaks, "leaks", "unknown          1,", true);
	says(cmd_leaks, "leaks", "nothing leaks", false);
	says(cmd_report, "report", "Grows         unknown: ", true);
	says(cmd_report, "report", "live at the end", false);
	says(cmd_timeline, "timeline", "Bound         unknown: ", true);
	put_sidecar("kmem", "");
	says(cmd_report, "report", "Grows           ", true);
	says(cmd_report, "report", "live at the end", true);
}

/* Frees that are known to be missing, as addresses were allocated again. */
static void test_missed(void)
{
	static const struct {
		size_t again;
		const char *verdict;
		uint64_t unknown;
	} rows[] = {{0, "leak", 0}, {20, "leak", 0}, {2, "unknown", 1}};

	put_sidecar("kmem", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *leaks, *report;

		put_stream(EVERY, rows[i].again);
		leaks = json_of(cmd_leaks, "leaks");
		report = json_of(cmd_report, "report");
		ok(!strcmp(verdict_of(leaks), rows[i].verdict),
		   "where each %zuth address of what stays was allocated again: %s", rows[i].again,
		   rows[i].verdict);
		ok(is_growth_null(leaks) == !!rows[i].unknown, "so is its growth");
		ok(json_array_size(json_object_get(report, "leaking")) == !rows[i].unknown &&
			   json_integer_value(json_object_get(report, "unknown_call_sites")) ==
				   (json_int_t)rows[i].unknown,
		   "so is what leaks");
		json_decref(leaks);
		json_decref(report);
	}
	says(cmd_report, "report",
	     "Grows         unknown of 1 call site, of which frees are missing", true);
	says(cmd_leaks, "leaks", "nothing leaks", false);
}

/* Live sums are not bounded where the instance was off, or had another spec, or lacks functions. */
static void test_interrupted(void)
{
	static const char *const specs[] = {
		"kmem", "kmem\",\"interrupted\":true,\"a\":\"",
		"kmem\"}],\"gaps\":[{\"function\":\"f\",\"reason\":\"r\",\"a\":\""};

	for (size_t i = 0; i < 3; i++) {
		json_t *report;

		put_sidecar(specs[i], "");
		report = json_of(cmd_report, "report");
		ok(is_bounded(report) == !i,
		   "no sum is bounded where the instance was off, or functions were");
		json_decref(report);
		says(cmd_leaks, "leaks", "Bound         unknown: the instance was off", i == 1);
		says(cmd_check, "check", "Limits    kmem was off for a while", i == 1);
		says(cmd_report, "report", "unknown: some functions were not traced", i == 2);
	}
}

int main(void)
{
	dir = scratch_make();
	test_specs();
	test_missed();
	test_interrupted();
	scratch_remove(&dir);
	return tap_done();
}
