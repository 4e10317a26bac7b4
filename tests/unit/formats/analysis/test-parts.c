/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a report of a part of a trace says of the whole, and names that tell parts of a line apart.
 */
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"null_frees\":7,\"symbols\":["
	"{\"name\":\"early\",\"start\":\"0x1000\",\"size\":4096}],\"caches\":["
	"{\"id\":1,\"name\":\"kmalloc-64\",\"object_size\":64,\"size\":64},"
	"{\"id\":2,\"name\":\"kmalloc-96\",\"object_size\":96,\"size\":96}]}";

/* One call site allocates from two caches of kmalloc(). */
static void put_trace(const char *dir)
{
	static const uint8_t cache_ids[] = {1, 0, 2, 0};
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0x10000, 0x1010, 60, 64, 1000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0x20000, 0x1010, 90, 96, 2000000000),
	};

	stream_put(dir, 0, records, sizeof(records) / sizeof(records[0]));
	file_put(dir, "caches0", cache_ids, sizeof(cache_ids));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static void has(const char *const *argv, const char *line, const char *what)
{
	struct verb_result result = verb_run(cmd_report, argv);

	if (!ok(strstr(result.out, line), "%s", what))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

/* A table has a row for each of the two. */
static void has_both(int (*verb)(int, char **), const char *const *argv)
{
	struct verb_result result = verb_run(verb, argv);

	if (!ok(strstr(result.out, "early+0x10/0x1000 (kmalloc-96)") &&
			strstr(result.out, "early+0x10/0x1000 (kmalloc-64)"),
		"so they do in the table of %s", argv[0]))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

int main(void)
{
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	has((const char *const[]){"report", "-v", dir.path, NULL}, "\nLeft out      7 NULL frees\n",
	    "counters are of the whole trace");
	has((const char *const[]){"report", "-v", "--time", "1.5,", dir.path, NULL},
	    "\nLeft out      in the whole trace: 7 NULL frees\n",
	    "which a report of another time says");
	has((const char *const[]){"report", "-v", "--type", "pages", dir.path, NULL},
	    "\nLeft out      in the whole trace: 7 NULL frees\n",
	    "and one of some allocations, too");
	has((const char *const[]){"report", dir.path, NULL},
	    "early+0x10/0x1000 (kmalloc-96) 6 B, early+0x10/0x1000 (kmalloc-64) 4 B\n",
	    "where a line has a call site twice, the caches tell which is which");
	has_both(cmd_leaks, (const char *const[]){"leaks", "-v", dir.path, NULL});
	has_both(cmd_timeline, (const char *const[]){"timeline", dir.path, NULL});
	scratch_remove(&dir);
	return tap_done();
}
