/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Model files: what they set, and what is wrong with them. */
#include <string.h>
#include "formats/allocators/allocator.h"
#include "tests/lib/tap.h"

static int parse(const char *text, struct model *out, struct error *err)
{
	return model_parse("m", text, strlen(text), out, err);
}

static void test_values(void)
{
	static const char text[] = "# small slabs\n"
				   "base = slub-7.0\r\n"
				   "cpus=3\n"
				   "  nodes =  2   # both\n"
				   "kmalloc_sizes = 16, 64 4096\n"
				   "order_max = 1\n"
				   "[kmalloc-*]\n"
				   "align = 64\n"
				   "[kmalloc-1k]\n"
				   "align = auto\n"
				   "order = 2";
	struct cache_params params;
	struct model model;
	struct error err;

	if (!ok(!parse(text, &model, &err), "a model file is read"))
		tap_diag("%s", err.text);
	ok(model.cpus == 3 && model.nodes == 2 && model.cache.order_max == 1,
	   "it sets parameters of the whole model");
	ok(model.nr_kmalloc_sizes == 3 && model.kmalloc_sizes[1] == 64,
	   "it sets sizes of kmalloc()");
	ok(model.cache.sheaf == MODEL_AUTO, "what it does not set is as in its base");
	params = model_cache_params(&model, "dentry");
	ok(params.align == MODEL_AUTO && params.order == MODEL_AUTO,
	   "sections do not change other caches");
	params = model_cache_params(&model, "kmalloc-64");
	ok(params.align == 64 && params.order == MODEL_AUTO, "a section changes caches that match");
	params = model_cache_params(&model, "kmalloc-1k");
	ok(params.align == MODEL_AUTO && params.order == 2, "of two sections the last one wins");
	ok(!parse("", &model, &err) && model.cache.order_max == 3,
	   "an empty file is the usual model");
}

static void test_errors(void)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"\n\ncpu = 3\n", "m:3: there is no parameter 'cpu': did you mean 'cpus'?"},
		{"zzzzzzzzzzzzzz = 3",
		 "m:1: there is no parameter 'zzzzzzzzzzzzzz'; sonde-replay(1) lists them"},
		{"cpus", "m:1: 'cpus' is no line KEY = VALUE"},
		{"cpus = 0", "m:1: cpus takes a number from 1 to 4096 or auto, not '0'"},
		{"nodes = auto", "m:1: nodes takes a number from 1 to 64, not 'auto'"},
		{"order_max = 11", "m:1: order_max takes a number from 0 to 10, not '11'"},
		{"align = 24", "m:1: align takes a power of 2, not '24'"},
		{"merge = 1", "m:1: merge takes yes or no, not '1'"},
		{"kmalloc_buckets = 2", "m:1: kmalloc_buckets takes yes or no, not '2'"},
		{"kmalloc_sizes =", "m:1: kmalloc_sizes has no value"},
		{"kmalloc_sizes = 64 32",
		 "m:1: kmalloc_sizes: 32 does not follow 64 in ascending order"},
		{"kmalloc_sizes = 4",
		 "m:1: kmalloc_sizes takes numbers from 8 to 4194304, not '4'"},
		{"[a]\nmerge = yes",
		 "m:2: merge is for the whole model: write it before the first section"},
		{"cpus = 2\nbase = slub-6.1", "m:2: base comes before all other parameters"},
		{"base = slub-6.2", "m:1: there is no model 'slub-6.2': did you mean 'slub-6.1'?"},
		{"[dentry", "m:1: a section is [CACHE], with a cache's name or a glob"},
		{"[]", "m:1: a section is [CACHE], with a cache's name or a glob"},
		{"[a[b]",
		 "m:1: [a[b] is no glob: it has '[' without ']', or a backslash at its end"},
		{"a\033b = 1", "m:1: there is no parameter 'a?b'"},
	};
	struct model model;
	struct error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		err.text[0] = '\0';
		if (!ok(parse(rows[i].text, &model, &err) < 0 &&
				!strncmp(err.text, rows[i].error, strlen(rows[i].error)),
			"the error is: %s", rows[i].error))
			tap_diag("%s", err.text);
	}
	ok(model_parse("m", "a\0b", 3, &model, &err) < 0, "a byte 0 is refused");
}

static void test_limits(void)
{
	char text[4096] = "[a]\n", line[600];
	struct model model;
	struct error err;

	for (int i = 0; i <= MODEL_MAX_RULES; i++)
		strcat(text, "order = 1\n");
	ok(parse(text, &model, &err) < 0 && strstr(err.text, "m:66: sections may have at most 64"),
	   "a parameter too many is refused");
	memset(line, 'a', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	ok(parse(line, &model, &err) < 0 && strstr(err.text, "m:1: a line has at most 511"),
	   "a line that is too long is refused");
}

static void test_guest(void)
{
	static const struct {
		const char *allocator, *banner, *name;
	} rows[] = {{"", "Linux version 5.10.0-32-cloud-amd64 (debian)", "slub-5.10"},
		    {"slub", "Linux version 5.16.1", "slub-6.1"},
		    {"", "Linux version 6.1.0-56", "slub-6.1"},
		    {"slub", "Linux version 6.12.107", "slub-6.12"},
		    {"slub", "Linux version 7.2.1", "slub-7.0"},
		    {"slab", "Linux version 6.1.0-56", "slab-5.10"},
		    {"slob", "", "slob-5.10"}};
	struct model model;
	struct error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ok(!model_of_guest(rows[i].allocator, rows[i].banner, &model, &err) &&
			   !strcmp(model.name, rows[i].name) && !model.nr_kmalloc_sizes,
		   "%s of %s is modelled by %s", rows[i].allocator, rows[i].banner, rows[i].name);
	ok(model_of_guest("slqb", rows[0].banner, &model, &err) < 0 &&
		   strstr(err.text, "no model of the guest's slab allocator 'slqb'"),
	   "an allocator that is not known is not taken for another one");
	ok(model_of_guest("", "", &model, &err) < 0, "a trace without a version needs --allocator");
}

int main(void)
{
	test_values();
	test_errors();
	test_limits();
	test_guest();
	return tap_done();
}
