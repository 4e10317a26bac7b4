/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All exports of a trace without events, and of one with the greatest and smallest numbers. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "formats/export/export.h"
#include "tests/lib/export-make.h"
#include "tests/lib/tap.h"
#include "tests/lib/tool.h"

static struct scratch dir;

struct path {
	char s[128];
};

static struct path path_of(const char *name)
{
	struct path path;

	snprintf(path.s, sizeof(path.s), "%s/%s", dir.path, name);
	return path;
}

/* Readers take what is written, where they are installed. */
static void check_readers(void)
{
	static const char *const commands[][2] = {
		{"trace-cmd", "trace-cmd report '%s/trace.dat'"},
		{"xmllint", "xmllint --noout '%s/flamegraph'"},
		{"protoc", "protoc --decode_raw < '%s/perfetto'"},
		{"gzip", "gzip -dc < '%s/pprof'"},
		{"jq", "jq . '%s/jsonl'"},
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		char command[256];

		snprintf(command, sizeof(command), commands[i][1], dir.path);
		if (tool_exists(commands[i][0]))
			ok(!tool_run(NULL, "%s", command), "%s reads its export", commands[i][0]);
		else
			tap_skip(commands[i][0], "it is not installed");
	}
}

static void convert_all(const char *trace)
{
	for (size_t i = 0; exporter_names[i]; i++)
		export_make_convert(trace, exporter_names[i], path_of(exporter_names[i]).s,
				    "--force");
	check_readers();
}

static void test_empty(void)
{
	const struct path trace = path_of("empty");
	char *text;
	size_t size;

	if (mkdir(trace.s, 0700))
		abort();
	file_put(trace.s, "cpu0", "", 0);
	convert_all(trace.s);
	text = file_get(dir.path, "folded", &size);
	is_u64(size, 0, "no events are no stacks");
	free(text);
}

static void test_extremes(void)
{
	struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0, 0, UINT64_MAX, UINT64_MAX, INT64_MIN),
		make_alloc(KMEM_TYPE_CACHE, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
			   INT64_MAX),
		make_alloc(KMEM_TYPE_PAGES, 0, 1, UINT64_MAX, UINT64_MAX, 0),
		make_free(KMEM_TYPE_PAGES, UINT64_MAX, 0, -1),
	};
	const struct path trace = path_of("extremes");
	char *text;
	size_t size;

	if (mkdir(trace.s, 0700))
		abort();
	records[1].gfp_flags = UINT64_MAX;
	records[1].node = INT32_MIN;
	records[3].event_id = 99;
	stream_put(trace.s, 0, records, 4);
	convert_all(trace.s);
	text = file_get(dir.path, "csv", &size);
	ok(strstr(text, "\n-9223372036854775808,0,kmem,kmem:kmalloc,0x0,0x0,0x0,"
			"18446744073709551615,"),
	   "numbers are as they are");
	free(text);
}

int main(void)
{
	dir = scratch_make();
	test_empty();
	test_extremes();
	scratch_remove(&dir);
	return tap_done();
}
