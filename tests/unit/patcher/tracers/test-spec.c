// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include "formats/event/record.h"
#include "patcher/tracers/registry.h"
#include "patcher/tracers/kmem/kmem.h"
#include "tests/lib/tap.h"

struct good_row {
	const char *text;
	uint32_t filters;
};

static const struct good_row good[] = {
	{"kmem", 0},
	{"kmem:kmalloc", 1 << KMEM_TYPE_KMALLOC},
	{"kmem:cache,pages", 1 << KMEM_TYPE_CACHE | 1 << KMEM_TYPE_PAGES},
	{"kmem:pages,kmalloc,pages", 1 << KMEM_TYPE_PAGES | 1 << KMEM_TYPE_KMALLOC},
};

struct bad_row {
	const char *text, *says;
};

static const struct bad_row bad[] = {
	{"", "empty word"},
	{":cache", "empty word"},
	{"kmem:", "empty word"},
	{"kmem:,cache", "empty word"},
	{"kmem:cache,", "empty word"},
	{"kmem:cache,,pages", "empty word"},
	{"kmme", "did you mean 'kmem'"},
	{"kmem,cache", "unknown tracer 'kmem,cache'"},
	{"scheduler", "known are kmem"},
	{"kmem:cach", "did you mean 'cache'"},
	{"kmem:interrupts", "known are kmalloc, cache, pages"},
	{"kmem:cache:pages", "unknown filter 'cache:pages'"},
	{"kmem:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	 "too long"},
};

int main(void)
{
	struct trace_spec spec;
	struct error err;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(!trace_spec_parse(good[i].text, &spec, &err) &&
			   !strcmp(spec.ops->name, "kmem") && spec.filters == good[i].filters,
		   "\"%s\"", good[i].text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct error){0};
		ok(trace_spec_parse(bad[i].text, &spec, &err) == -EINVAL &&
			   strstr(err.text, bad[i].says),
		   "\"%s\": %s", bad[i].text, err.text);
		ok(trace_spec_parse(bad[i].text, &spec, NULL) == -EINVAL,
		   "without an error object");
	}
	ok(tracer_kmem.filters[KMEM_TYPE_COUNT] == NULL, "kmem has a filter for each record type");
	return tap_done();
}
