/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options by which nothing is left to show: a line says so, or the command line is refused. */
#include <string.h>
#include "formats/cmd.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"symbols\":["
	"{\"name\":\"early\",\"start\":\"0x1000\",\"size\":4096},"
	"{\"name\":\"free_reserved_area\",\"start\":\"0x5000\",\"size\":256}]}";

static void put_trace(const char *dir)
{
	const struct kmem_record records[] = {
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000100, 0x1010, 60, 64, 2500000000),
		make_free(KMEM_TYPE_KMALLOC, 0xffff888000000100, 0x1010, 2600000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000200, 0x1010, 60, 64, 3000000000),
		make_free(KMEM_TYPE_PAGES, 0x90000, 0x5010, 4000000000),
		make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000300, 0x1010, 60, 64, 5000000000),
	};

	stream_put(dir, 0, records, sizeof(records) / sizeof(records[0]));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

struct row {
	int (*verb)(int, char **);
	const char *argv[10];
	int status;
	const char *err; /* the whole of it */
	const char *out; /* a part; NULL: any */
};

static void test_row(const char *dir, const struct row *row)
{
	const char *argv[12];
	struct verb_result result;
	size_t n = 0;

	for (; row->argv[n]; n++)
		argv[n] = row->argv[n];
	argv[n] = dir;
	argv[n + 1] = NULL;
	result = verb_run(row->verb, argv);
	is_u64((uint64_t)result.status, (uint64_t)row->status,
	       "the status says whether it is an error");
	is_str(result.err, row->err, "a line says what leaves nothing to show");
	if (row->out && !ok(strstr(result.out, row->out), "so does the output: %s", row->out))
		tap_diag("%s", result.out);
	verb_result_deinit(&result);
}

/* How often a text has another one in it. */
static unsigned int count_text(const char *text, const char *part)
{
	unsigned int n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* Each trace has its own line: diff has two. */
static void test_checksums(const char *dir)
{
	const struct {
		int (*verb)(int, char **);
		const char *argv[5];
		unsigned int lines;
	} rows[] = {
		{cmd_report, {"report", dir}, 1},
		{cmd_leaks, {"leaks", dir}, 1},
		{cmd_timeline, {"timeline", dir}, 1},
		{cmd_replay, {"replay", "--allocator", "slub-6.1", dir}, 1},
		{cmd_check, {"check", dir}, 1},
		{cmd_diff, {"diff", dir, dir}, 2},
	};
	const char *const argv[] = {"report", "--json", dir, NULL};
	json_t *root = verb_json(cmd_report, argv);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verb_result result = verb_run(rows[i].verb, rows[i].argv);

		ok(count_text(result.out, "have no checksums: damage may go unnoticed\n") ==
			   rows[i].lines,
		   "sonde %s says that damage may go unnoticed", rows[i].argv[0]);
		verb_result_deinit(&result);
	}
	ok(json_is_false(json_object_get(root, "checksums")), "so does the JSON");
	json_decref(root);
}

/* A trace without call chains. */
static void test_wrapper(const char *dir)
{
	static const char named[] =
		"{\"version\":1,\"complete\":true,\"vcpus\":[{}],\"symbols\":["
		"{\"name\":\"kvmalloc_node\",\"start\":\"0x1000\",\"size\":4096}]}";
	const char *const argv[] = {"report", "--by", "callsite", dir, NULL};
	struct verb_result result;

	file_put(dir, "sonde.json", named, strlen(named));
	result = verb_run(cmd_report, argv);
	if (!ok(strstr(result.out, "\n* allocates for its callers, which a trace with call chains "
				   "names: --trace kmem:stack\n"),
		"the callers of a function that allocates for them are in no trace without chains"))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

static void test_notes(const char *dir)
{
	static const struct row rows[] = {
		{cmd_report, {"report"}, 0, "", NULL},
		{cmd_report,
		 {"report", "--time", "100,200"},
		 0,
		 "sonde report: no event is in the time that --time chooses: the trace has some "
		 "from "
		 "2.500 to 5.000 s\n",
		 "Trace         0 records"},
		{cmd_report,
		 {"report", "--time", "2.7,3.5"},
		 0,
		 "",
		 "Trace         1 record, 1 vCPU, 0.800 s, from 2.700 to 3.500 s\n"},
		{cmd_report,
		 {"report", "--since", "boot"},
		 2,
		 "sonde report: --since takes init, not 'boot'\n",
		 NULL},
		{cmd_leaks,
		 {"leaks", "--json", "--time", ",1"},
		 0,
		 "sonde leaks: no event is in the time that --time chooses: the first is at 2.500 "
		 "s\n",
		 NULL},
		{cmd_timeline,
		 {"timeline", "--time", "3.1,3.2"},
		 0,
		 "sonde timeline: no event is in the time that --time chooses: the nearest are at "
		 "3.000 and 4.000 s\n",
		 NULL},
		{cmd_report,
		 {"report", "-a", "events", "--since", "init", "--time", ",3.5"},
		 0,
		 "sonde report: no event is in the time that --since and --time choose: init "
		 "begins at 4.000 s; let --time end later\n",
		 NULL},
		{cmd_diff,
		 {"diff", "--time-a", ",2", "--time-b", "2,"},
		 0,
		 "sonde diff: A: no event is in the time that --time-a chooses: the first is at "
		 "2.500 s\n",
		 NULL},
		{cmd_report,
		 {"report", "--filter", "bytes_req == 7"},
		 0,
		 "sonde report: no allocation is one that --filter chooses\n",
		 NULL},
		{cmd_leaks,
		 {"leaks", "--type", "pages", "--vcpu", "0"},
		 0,
		 "sonde leaks: no allocation is one that --type and --vcpu choose\n",
		 NULL},
		{cmd_report,
		 {"report", "--older", "3s"},
		 0,
		 "sonde report: --older: nothing that is live is so old; the oldest lives for "
		 "2.0 s\n",
		 NULL},
		{cmd_leaks, {"leaks", "--older", "2s"}, 0, "", "Call sites    1 with live"},
		{cmd_report, {"report", "--older", "2s"}, 0, "", "early+0x10"},
		{cmd_report,
		 {"report", "--history", "ffff888000000100", "--since", "init"},
		 0,
		 "",
		 "Events   0; 2 before, which --time and --since leave out\n"},
		{cmd_report,
		 {"report", "--history", "ffff888000000400", "--since", "init"},
		 0,
		 "",
		 "Events   0\n"},
		{cmd_report,
		 {"report", "--sort", "cross-node"},
		 0,
		 "sonde report: --sort cross-node: the trace does not know of two NUMA nodes, so "
		 "that all are 0\n",
		 NULL},
		{cmd_report,
		 {"report", "--by", "cache,task"},
		 0,
		 "sonde report: --by task: the trace does not say which task allocates; record "
		 "with --trace kmem:pid,comm\n",
		 NULL},
		{cmd_report,
		 {"report", "--sort", "slabs"},
		 2,
		 "sonde report: --sort slabs is for --by cache\n",
		 NULL},
		{cmd_report,
		 {"report", "--by", "cache,callsite", "--measures", "live,slabs"},
		 2,
		 "sonde report: --measures slabs is for --by cache\n",
		 NULL},
		{cmd_report,
		 {"report", "--by", "cache", "--sort", "slabs", "--vcpu", "0"},
		 2,
		 "sonde report: --sort slabs: nothing says which slabs are of a part of the "
		 "objects; leave out --event, --filter, --type and --vcpu\n",
		 NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		test_row(dir, &rows[i]);
}

int main(void)
{
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	test_notes(dir.path);
	test_checksums(dir.path);
	test_wrapper(dir.path);
	scratch_remove(&dir);
	return tap_done();
}
