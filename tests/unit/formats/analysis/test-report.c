/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"mode\":\"trap\",\"from_first_allocation\":true,"
	"\"banner\":\"Linux version 6.1.0-test (x@y) #1\",\"null_allocs\":4,"
	"\"vcpus\":[{\"allocs\":3,\"frees\":1},{\"frees\":1,\"overruns\":6}],"
	"\"caches\":[{\"id\":1,\"name\":\"dentry\",\"object_size\":190,\"size\":192}],"
	"\"symbols\":[{\"name\":\"d_alloc\",\"start\":\"0x1000\",\"size\":256,"
	"\"returned\":\"struct dentry\",\"returned_bytes\":190}]}";

/* d_alloc: two dentries of 190/192, one freed elsewhere; 0x2000: a page of its own. */
static void put_trace(const char *dir)
{
	static const uint8_t cache_ids[] = {1, 0, 1, 0};
	const struct kmem_record first[] = {
		make_alloc(KMEM_TYPE_CACHE, 0x100, 0x1010, 190, 192, 1000000000),
		make_alloc(KMEM_TYPE_CACHE, 0x200, 0x1010, 190, 192, 2000000000),
		make_alloc(KMEM_TYPE_PAGES, 0x3000, 0x2000, 4096, 4096, 3000000000),
		make_free(KMEM_TYPE_PAGES, 0x3000, 0x2000, 4000000000),
	};
	const struct kmem_record second[] = {make_free(KMEM_TYPE_CACHE, 0x100, 0x5000, 4500000000)};

	stream_put(dir, 0, first, 4);
	stream_put(dir, 1, second, 1);
	file_put(dir, "caches0", cache_ids, sizeof(cache_ids));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

static json_t *report(const char *dir, const char *option, const char *value)
{
	const char *argv[] = {"report", "--json", dir, option, value, NULL};

	return verb_json(cmd_report, argv);
}

/* Every key that design.md, section 6, promises, with its value. */
static void test_json(const char *dir)
{
	json_t *root = report(dir, "--sort", "bytes");
	const char *address = NULL, *symbol = NULL;
	json_int_t n[15] = {0};
	double percent = -1, site_percent = -1;

	ok(!json_unpack(root, "{s:I s:I s:I s:I s:I s:I s:F s:I s:I s:I}", "version", &n[0],
			"alloc_events", &n[1], "free_events", &n[2], "overruns", &n[3],
			"bytes_requested", &n[4], "bytes_allocated", &n[5], "fragmentation_percent",
			&percent, "cross_cpu_frees", &n[6], "live_objects", &n[7], "live_bytes",
			&n[8]),
	   "JSON has the keys of the sums");
	ok(n[0] == 1 && n[1] == 3 && n[2] == 2 && n[3] == 6, "JSON counts events and overruns");
	ok(n[4] == 4476 && n[5] == 4480 && percent == 0.09,
	   "JSON has exact bytes, and percents with two decimals");
	ok(n[6] == 1 && n[7] == 1 && n[8] == 192, "JSON counts live objects and cross-CPU frees");
	is_u64(json_array_size(json_object_get(root, "call_sites")), 2,
	       "JSON lists each call site");
	ok(!json_unpack(json_array_get(json_object_get(root, "call_sites"), 1),
			"{s:s s:s s:I s:I s:I s:F s:I s:I s:I}", "address", &address, "symbol",
			&symbol, "hits", &n[0], "bytes_requested", &n[1], "bytes_allocated", &n[2],
			"fragmentation_percent", &site_percent, "cross_cpu_frees", &n[3],
			"live_objects", &n[4], "live_bytes", &n[5]),
	   "JSON has the keys of a call site");
	is_str(address, "0x1010", "a call site has its address");
	is_str(symbol, "d_alloc+0x10/0x100", "a call site has its symbol");
	ok(n[0] == 2 && n[1] == 380 && n[2] == 384 && site_percent == 1.04,
	   "a call site has its sums");
	is_u64((uint64_t)json_integer_value(json_object_get(root, "null_allocs")), 4,
	       "JSON counts NULL allocations");
	json_decref(root);
}

static void test_options(const char *dir)
{
	static const struct {
		const char *option, *value, *list;
		size_t count;
		const char *key, *first;
	} rows[] = {
		{"--by", "cache", "caches", 2, "name", "dentry"},
		{"--by", "object", "objects", 2, "object", "struct dentry"},
		{"--by", "size", "sizes", 2, NULL, NULL},
		{"--by", "pointer", "pointers", 3, "address", "0x200"},
		{"--by", "function", "functions", 2, "function", "d_alloc"},
		{"--by", "module", "modules", 2, "module", "(kernel)"},
		{"--by", "vcpu", "by_vcpu", 1, NULL, NULL},
		{"--by", "cache,callsite", "combinations", 2, "symbol", "d_alloc+0x10/0x100"},
		{"--by", "type,pointer", "combinations", 3, "pointer", "0x200"},
		{"--sort", "hits", "call_sites", 2, "address", "0x1010"},
		{"--sort", "live", "call_sites", 2, "address", "0x1010"},
		{"--sort", "bytes", "call_sites", 2, "address", "0x2000"},
		{"--top", "1", "call_sites", 1, "address", "0x1010"},
		{"--top", "0", "call_sites", 2, "address", "0x1010"},
		{"--type", "cache", "call_sites", 1, "address", "0x1010"},
		{"--filter", "bytes_req == 4096", "call_sites", 1, "address", "0x2000"},
		{"--filter", "call_site.function == d_alloc", "call_sites", 1, "address", "0x1010"},
		{"--vcpu", "1", "call_sites", 0, NULL, NULL},
		{"--time", ",2.5", "call_sites", 1, "address", "0x1010"},
		{"--time", "2.5,", "call_sites", 2, "address", "0x1010"},
		{"--instance", "kmem", "call_sites", 2, "address", "0x1010"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *root = report(dir, rows[i].option, rows[i].value);
		const json_t *list = json_object_get(root, rows[i].list);

		is_u64(json_array_size(list), rows[i].count, "the option selects the groups");
		if (rows[i].key)
			is_str(json_string_value(
				       json_object_get(json_array_get(list, 0), rows[i].key)),
			       rows[i].first, "the option selects the first group");
		json_decref(root);
	}
}

static void has_lines(const char *const *argv, const char *const *wanted, size_t n)
{
	struct verb_result result = verb_run(cmd_report, argv);

	for (size_t i = 0; i < n; i++) {
		if (!ok(strstr(result.out, wanted[i]), "text has the line: %.*s",
			(int)strcspn(wanted[i], "\n"), wanted[i]))
			tap_diag("%s", result.out);
	}
	ok(!strchr(result.out, '\033'), "output to a file has no colour");
	verb_result_deinit(&result);
}

static void test_text(const char *dir)
{
	static const char *const wanted[] = {
		"Linux version 6.1.0-test\n",
		"5 records, 2 vCPUs, 3.500 s, from 1.000 to 4.500 s, trap, from boot on\n",
		"Memory              192 B  live at the end, each byte counted once\n",
		"  outside           192 B  of objects in pages allocated outside the trace\n",
		"peak 4.4 KiB at 3.000 s\n",
		"Grows         too short to tell: that takes 10 s\n",
		"Lost          6 records: not written\n",
		"Bound         live sums are at most 6 objects too high, by at most 192 B,",
		"\n LIVE  CALL SITE           WASTED  OBJECTS  ALLOCS     PEAK  ALLOCS/S  LIFETIME "
		" "
		"CROSS-CPU\n",
		"\n192 B  d_alloc+0x10/0x100     2 B        1       2    384 B       0.6     3.5 s "
		" "
		"        1\n",
	};
	static const char *const part[] = {
		"Trace         4 records, 2 vCPUs, 3.000 s, from 1.500 to 4.500 s, trap\n"};
	static const char *const events[] = {
		"Trace         4 records, 2 vCPUs, 2.500 s, from 2.000 to 4.500 s, trap\n"};
	static const char *const begin[] = {"Trace         4 records, 2 vCPUs, 3.500 s, from 1.000 "
					    "to 4.500 s, trap, from boot on\n"};
	static const char *const verbose[] = {
		"3 of 4.4 KiB requested, 4.4 KiB allocated: 0.1 % internal fragmentation\n",
		"Frees         2, 1 of them on another vCPU\n",
	};

	has_lines((const char *const[]){"report", dir, NULL}, wanted,
		  sizeof(wanted) / sizeof(wanted[0]));
	has_lines((const char *const[]){"report", "--time", "1.5,", dir, NULL}, part, 1);
	has_lines((const char *const[]){"report", "-a", "events", "--time", "1.5,", dir, NULL},
		  events, 1);
	has_lines((const char *const[]){"report", "--time", ",4.5", dir, NULL}, begin, 1);
	has_lines((const char *const[]){"report", "-v", dir, NULL}, verbose,
		  sizeof(verbose) / sizeof(verbose[0]));
}

static void test_history(const char *dir)
{
	static const char *const wanted[] = {
		"Address  0x1bf in text of babeltrace2: grep -i 0x1bf\n"
		"In       0x100 in text of babeltrace2: grep -i 0x100\n"
		"Events   2\n",
		"1.000000000  d_alloc+0x10/0x100  alloc    192         dentry     0   0x100",
		"4.500000000  0x5000              free     192  3.5 s  dentry     1   0x100",
	};

	json_t *root = report(dir, "--history", "0x1BF"), *freed;
	json_int_t time = 0, vcpu = 0, bytes = 0;
	const char *what = "", *cache = "";

	has_lines((const char *const[]){"report", "--history", "0x1BF", dir, NULL}, wanted, 3);
	freed = json_array_get(json_object_get(root, "history"), 1);
	ok(!json_unpack(freed, "{s:I s:s s:I s:I s:s}", "time_ns", &time, "what", &what, "vcpu",
			&vcpu, "bytes", &bytes, "cache", &cache) &&
		   time == 4500000000 && vcpu == 1 && bytes == 192 && !strcmp(what, "free") &&
		   !strcmp(cache, "dentry"),
	   "the history in JSON says the same of the free");
	json_decref(root);
}

/* Babeltrace2 prints the 48, or 57, bits of an address that a trace has. */
static void test_history_of_babeltrace(void)
{
	static const struct {
		uint64_t ptr;
		const char *text, *head, *what;
	} rows[] = {
		{0xffff8b4041048380, "0x8B4041048380",
		 "Address  0xffff8b4041048380 in text of babeltrace2: grep -i 8b4041048380\n",
		 "48 bits of an address name it"},
		{0xff118b4041048380, "0x1118B4041048380",
		 "Address  0xff118b4041048380 in text of babeltrace2: grep -i 118b4041048380\n",
		 "so do 57 bits"},
		{0x7b4041048380, "0x7B4041048380",
		 "Address  0x7b4041048380 in text of babeltrace2: grep -i 0x7b4041048380\n",
		 "an address of a process is itself"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scratch dir = scratch_make();
		const struct kmem_record record =
			make_alloc(KMEM_TYPE_KMALLOC, rows[i].ptr, 0x1010, 60, 64, 1000);
		json_t *root;

		stream_put(dir.path, 0, &record, 1);
		root = report(dir.path, "--history", rows[i].text);
		is_u64(json_array_size(json_object_get(root, "history")), 1, rows[i].what);
		has_lines(
			(const char *const[]){"report", "--history", rows[i].text, dir.path, NULL},
			&rows[i].head, 1);
		json_decref(root);
		scratch_remove(&dir);
	}
}

static void test_no_such_vcpu(const char *dir)
{
	const char *argv[] = {"report", dir, "--vcpu", "9", NULL};
	struct verb_result result = verb_run(cmd_report, argv);

	is_u64((uint64_t)result.status, 2, "a vCPU that the trace does not have is refused");
	is_str(result.err,
	       "sonde report: --vcpu: the trace has none of these: it has 2, from 0 on\n",
	       "and the vCPUs that it has are named");
	is_str(result.out, "", "nothing is reported then");
	verb_result_deinit(&result);
}

/* Nothing says which slabs are of a part of the objects. */
static void test_slabs(const char *dir)
{
	const char *const all[] = {"report", "--by", "cache", dir, NULL};
	const char *const part[] = {"report", "--by", "cache", "--type", "cache", dir, NULL};
	struct verb_result whole = verb_run(cmd_report, all), some = verb_run(cmd_report, part);

	ok(strstr(whole.out, " CACHE   ") && strstr(whole.out, "  SLABS  "), "caches have slabs");
	ok(strstr(some.out, " CACHE   ") && !strstr(some.out, "SLABS"),
	   "there is no column of slabs for a part of their objects");
	verb_result_deinit(&whole);
	verb_result_deinit(&some);
}

/* What was older is live in a window, and not counted. */
static void test_window(const char *dir)
{
	json_t *root = report(dir, "--time", "1.5,4.2");
	json_int_t hits = 0, live = 0, records = 0;

	ok(!json_unpack(root, "{s:I s:I s:I}", "alloc_events", &hits, "live_bytes", &live,
			"records", &records) &&
		   hits == 2 && live == 384 && records == 3,
	   "a window counts its own events, and what was live at its end");
	json_decref(root);
	root = report(dir, "--older", "2s");
	ok(!json_unpack(json_array_get(json_object_get(root, "call_sites"), 0), "{s:I}",
			"live_bytes", &live) &&
		   live == 192,
	   "--older shows what is live for long");
	json_decref(root);
	root = report(dir, "--older", "3s");
	ok(!json_unpack(json_array_get(json_object_get(root, "call_sites"), 0), "{s:I}",
			"live_bytes", &live) &&
		   live == 0,
	   "and not what is younger");
	json_decref(root);
}

/* A directory of a kmemtrace kernel has records only; a broken sidecar is no better. */
static void test_no_sidecar(const char *dir)
{
	const char *argv[] = {"report", dir, NULL};
	struct verb_result result;

	file_put(dir, "sonde.json", "{", 1);
	result = verb_run(cmd_report, argv);
	is_u64((uint64_t)result.status, 0, "a broken sidecar does not prevent a report");
	ok(strstr(result.out, "not valid JSON"), "text says that the sidecar is broken");
	ok(strstr(result.out, "  0x1010  "), "call sites without symbols are addresses");
	ok(strstr(result.out, "Lost          unknown"),
	   "text says that losses are unknown without a sidecar");
	verb_result_deinit(&result);
}

static void test_cut(const char *dir)
{
	const char *argv[] = {"report", dir, NULL};
	struct verb_result result;
	size_t size;
	char *bytes = file_get(dir, "cpu0", &size);

	file_put(dir, "cpu0", bytes, size - 16);
	result = verb_run(cmd_report, argv);
	is_u64((uint64_t)result.status, 0, "a trace that was cut off is reported");
	ok(strstr(result.out, "cpu0: ends within a record: the last 40 bytes, from byte 168"),
	   "text says how much of a cut file was ignored");
	verb_result_deinit(&result);
	free(bytes);
}

static void put_event(struct trace_writer *writer, int number, unsigned int i)
{
	const struct kmem_record record = make_alloc(KMEM_TYPE_KMALLOC, 0xffff888000000000 + i * 64,
						     0x1000, 60, 64, 1000 + i);

	trace_put(writer, number, KMEM_CLASS_KMALLOC, record.timestamp, &record);
}

/* Two instances; the second one sees every third allocation of the first one. */
static void put_instances(const char *dir)
{
	static const struct trace_info info = {.tool_version = "1", .from_first_allocation = true};
	struct trace_instance big = kmem_instance;
	struct trace_writer *writer;

	big.name = "big";
	big.spec = "kmem:kmalloc";
	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL) != 0 ||
	    trace_writer_add_instance(writer, &big, NULL) != 1)
		abort();
	for (unsigned int i = 0; i < 30; i++) {
		put_event(writer, 0, i);
		if (i % 3 == 0)
			put_event(writer, 1, i);
	}
	if (trace_writer_finish(writer, &info, NULL, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void test_instances(void)
{
	static const char *const wanted[] = {"Instance      kmem, one of 2 of kmem;",
					     "1.9 KiB  0x1000"};
	static const char *const big[] = {"Instance      big, one of 2 of kmem;", "640 B  0x1000"};
	struct scratch dir = scratch_make();
	const char *const wrong[] = {"report", "-i", "small", dir.path, NULL};
	const char *const check[] = {"check", dir.path, NULL};
	struct verb_result result;

	put_instances(dir.path);
	has_lines((const char *const[]){"report", dir.path, NULL}, wanted, 2);
	has_lines((const char *const[]){"report", "-i", "big", dir.path, NULL}, big, 2);
	result = verb_run(cmd_report, wrong);
	ok(result.status == 2 && strstr(result.err, "--instance takes kmem or big, not 'small'"),
	   "an instance that is not there exits with 2");
	verb_result_deinit(&result);
	result = verb_run(cmd_check, check);
	ok(result.status == 0 && strstr(result.out, "0 errors, 0 notes"),
	   "sonde check finds nothing where two instances see the same");
	verb_result_deinit(&result);
	scratch_remove(&dir);
}

/* A trace that nobody writes any more is shown once. */
static void test_follow(const char *dir)
{
	const char *argv[] = {"report", "--json", "--follow", dir, NULL};
	struct verb_result followed = verb_run(cmd_report, argv), whole;

	whole = verb_run(cmd_report, (const char *const[]){"report", "--json", dir, NULL});
	is_str(followed.out, whole.out, "--follow prints at its end what a report prints");
	verb_result_deinit(&followed);
	verb_result_deinit(&whole);
}

static void test_usage(void)
{
	static const struct {
		const char *argv[5];
		int status;
		const char *err, *what;
	} calls[] = {
		{{"report", "--help"}, 0, NULL, "--help exits with 0"},
		{{"report"},
		 2,
		 "name one trace",
		 "a command line without a directory exits with 2"},
		{{"report", "--bogus", "x"}, 2, "--bogus", "an unknown option exits with 2"},
		{{"report", "x", "--top"},
		 2,
		 "--top needs a value",
		 "an option without its value exits with 2"},
		{{"report", "--top", "-1", "x"},
		 2,
		 "--top takes a number",
		 "--top without a number exits with 2"},
		{{"report", "--by", "cache,color", "x"},
		 2,
		 "--by takes callsite, cache, type, object, size, sizeclass, function, module, "
		 "node, "
		 "vcpu, task, pointer or syscall, not 'color'",
		 "an unknown word exits with 2"},
		{{"report", "--by", "cache,callsite,type,size,node", "x"},
		 2,
		 "--by takes at most 4 words",
		 "too many words exit with 2"},
		{{"report", "--sort", "", "x"},
		 2,
		 "--sort takes hits, ",
		 "an empty word exits with 2"},
		{{"report", "--measures", "live,size", "x"},
		 2,
		 "--measures takes hits, ",
		 "an unknown column exits with 2"},
		{{"report", "--history", "here", "x"},
		 2,
		 "'here' is not an address",
		 "a pointer that is none exits with 2"},
		{{"report", "--since", "5", "x"},
		 2,
		 "--since takes init, not '5'; for a time, use --time 5,",
		 "another beginning than init exits with 2"},
		{{"report", "-a", "nothing", "x"},
		 2,
		 "--analysis takes kmem, ",
		 "an unknown analysis exits with 2"},
		{{"report", "-a", "leaks,check,leaks", "x"},
		 2,
		 "--analysis names leaks twice",
		 "an analysis that is named twice exits with 2"},
		{{"report", "-a", "history", "x"},
		 2,
		 "-a history takes the address of --history POINTER",
		 "a history of no address exits with 2"},
		{{"report", "-aleaks", "--history=1", "x"},
		 2,
		 "--history shows an address instead of -a leaks",
		 "a history beside another analysis exits with 2"},
		{{"report", "-acheck,leaks", "-bsize", "x"},
		 2,
		 "-a check takes no --by",
		 "an option of none of the analyses exits with 2"},
		{{"report", "-acheck", "-bsize", "x"},
		 2,
		 "takes no --by",
		 "an option of another analysis exits with 2"},
		{{"report", "-acheck", "--time=1,2", "x"},
		 2,
		 "-a check is of a whole trace",
		 "a check of a part exits with 2"},
		{{"report", "-aleaks,check", "-tpages", "x"},
		 2,
		 "-a check is of a whole trace",
		 "one of a type, beside another analysis, too"},
		{{"report", "--history=1", "--older=3s", "x"},
		 2,
		 "--history takes no --by",
		 "a history of old objects exits with 2"},
		{{"report", "/nonexistent"},
		 1,
		 "No such file",
		 "a directory that is not there exits with 1"},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct verb_result result = verb_run(cmd_report, calls[i].argv);
		const char *line_end = strchr(result.err, '\n');

		is_u64((uint64_t)result.status, (uint64_t)calls[i].status, calls[i].what);
		if (calls[i].err)
			ok(strstr(result.err, calls[i].err) && line_end && !line_end[1] &&
				   !result.out[0],
			   "the error is one line: %.60s", calls[i].err);
		else
			ok(strstr(result.out, "usage: sonde report") && !result.err[0],
			   "--help prints the usage");
		verb_result_deinit(&result);
	}
}

int main(void)
{
	struct scratch dir = scratch_make();

	put_trace(dir.path);
	test_json(dir.path);
	test_options(dir.path);
	test_text(dir.path);
	test_history(dir.path);
	test_history_of_babeltrace();
	test_follow(dir.path);
	test_no_such_vcpu(dir.path);
	test_slabs(dir.path);
	test_window(dir.path);
	test_no_sidecar(dir.path);
	test_cut(dir.path);
	test_instances();
	test_usage();
	scratch_remove(&dir);
	return tap_done();
}
