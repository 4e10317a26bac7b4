/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

static const char sidecar[] =
	"{\"version\":1,\"complete\":true,\"vcpus\":[{\"allocs\":2,\"frees\":1},{\"frees\":1}],"
	"\"gfp_flags\":[{\"name\":\"GFP_KERNEL\",\"mask\":\"0xcc0\"},"
	"{\"name\":\"__GFP_ZERO\",\"mask\":\"0x100\"}],"
	"\"caches\":[{\"id\":1,\"name\":\"a\\\"b\",\"object_size\":190,\"size\":192}],"
	"\"symbols\":[{\"name\":\"d_alloc\",\"start\":\"0x1000\",\"size\":256}]}";

#define ALLOC                                                                                  \
	"[000]     1.000000000 kmem:kmem_cache_alloc: call_site=d_alloc+0x10/0x100 ptr=0x100 " \
	"bytes_req=190 bytes_alloc=192 cache=a\"b gfp_flags=GFP_KERNEL|__GFP_ZERO node=-1\n"
#define PAGES                                                                                   \
	"[000]     2.500000001 kmem:mm_page_alloc: call_site=0x2000 ptr=0x3000 bytes_req=4096 " \
	"gfp_flags=none node=-1\n"
#define PAGES_FREE \
	"[000]     4.000000000 kmem:mm_page_free: call_site=0x2000 ptr=0x3000 bytes_req=0\n"
#define CACHE_FREE \
	"[001]     3.000000000 kmem:kmem_cache_free: call_site=0x5000 ptr=0x100 cache=-\n"

static void put_trace(const char *dir)
{
	static const uint8_t cache_ids[] = {1, 0, 0, 0, 0, 0};
	struct kmem_record first[] = {
		make_alloc(KMEM_TYPE_CACHE, 0x100, 0x1010, 190, 192, 1000000000),
		make_alloc(KMEM_TYPE_PAGES, 0x3000, 0x2000, 4096, 4096, 2500000001),
		make_free(KMEM_TYPE_PAGES, 0x3000, 0x2000, 4000000000),
	};
	const struct kmem_record second[] = {make_free(KMEM_TYPE_CACHE, 0x100, 0x5000, 3000000000)};

	first[0].gfp_flags = 0xdc0;
	first[1].gfp_flags = 0;
	stream_put(dir, 0, first, 3);
	stream_put(dir, 1, second, 1);
	file_put(dir, "caches0", cache_ids, sizeof(cache_ids));
	file_put(dir, "sonde.json", sidecar, strlen(sidecar));
}

/* What is said of a trace that lacks nothing; without checksums, that. */
static const char limits[] = "Limits records of this format have no checksums: damage may go "
			     "unnoticed\n";
static const char *said = limits;

static void prints(const char *dir, const char *option, const char *value, const char *out)
{
	const char *argv[] = {"events", dir, option, value, NULL};
	struct verb_result result = verb_run(cmd_events, argv);
	char name[128];

	snprintf(name, sizeof(name), "events %s %s", option ? option : "", value ? value : "");
	is_str(result.out, out, name);
	is_str(result.err, said, "of a trace that lacks nothing it says no more");
	is_u64((uint64_t)result.status, 0, "it succeeds");
	verb_result_deinit(&result);
}

static void test_selection(const char *dir)
{
	prints(dir, NULL, NULL, ALLOC PAGES CACHE_FREE PAGES_FREE);
	prints(dir, "--event", "mm_page_*", PAGES PAGES_FREE);
	prints(dir, "--event", "kmem:kmem_cache_free", CACHE_FREE);
	prints(dir, "--vcpu", "1", CACHE_FREE);
	prints(dir, "--vcpu", "0,2-7", ALLOC PAGES PAGES_FREE);
	prints(dir, "--time", "2.500000001,4", PAGES CACHE_FREE);
	prints(dir, "--time", ",2", ALLOC);
	prints(dir, "--time", "3.5,", PAGES_FREE);
	prints(dir, "--filter", "bytes_req > 1000", PAGES);
	prints(dir, "--filter", "call_site ~ \"d_*\" && gfp_flags & __GFP_ZERO", ALLOC);
	prints(dir, "--filter", "cache == 'a\"b'", ALLOC);
	prints(dir, "--filter", "vcpu == 1 || ptr == 0x3000", PAGES CACHE_FREE PAGES_FREE);
}

static void test_nothing(const char *dir)
{
	static const struct {
		const char *option, *value, *note;
	} rows[] = {
		{"--time", "50,60",
		 "no event is in the time that --time chooses: the trace has some from 1.000 to "
		 "4.000 s"},
		{"--time", ",0.5",
		 "no event is in the time that --time chooses: the first is at 1.000 s"},
		{"--filter", "bytes_req == 7", "no event is one that --filter chooses"},
		{"--filter", "call_site == d_alloc+0x11", "no event is one that --filter chooses"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char expected[300];

		snprintf(expected, sizeof(expected), "sonde events: %s\n%s", rows[i].note, limits);
		said = expected;
		prints(dir, rows[i].option, rows[i].value, "");
	}
	said = limits;
}

static void test_json(const char *dir)
{
	const char *argv[] = {"events", "--json", "--event", "kmem_cache_alloc", dir, NULL};
	struct verb_result result = verb_run(cmd_events, argv);
	json_t *root = json_loads(result.out, 0, NULL);
	const char *event = "", *site = "", *symbol = "", *cache = "", *flags = "";
	json_int_t ns = 0, vcpu = -1, requested = 0, node = 0;

	ok(root && !json_unpack(root, "{s:I s:I s:s s:s s:s s:I s:s s:s s:I}", "ns", &ns, "vcpu",
				&vcpu, "event", &event, "call_site", &site, "call_site_symbol",
				&symbol, "bytes_req", &requested, "cache", &cache, "gfp_flags",
				&flags, "node", &node),
	   "a JSON line has all fields");
	ok(ns == 1000000000 && vcpu == 0 && requested == 190 && node == -1,
	   "numbers are those of the record");
	is_str(event, "kmem:kmem_cache_alloc", "the event's name");
	is_str(site, "0x1010", "an address is a string");
	is_str(symbol, "d_alloc+0x10/0x100", "a code address has its symbol, too");
	is_str(cache, "a\"b", "a name with a quote is escaped");
	is_str(flags, "GFP_KERNEL|__GFP_ZERO", "flags have names");
	json_decref(root);
	verb_result_deinit(&result);
}

static void refuses(const char *dir, const char *option, const char *value, const char *line)
{
	const char *argv[] = {"events", dir, option, value, NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	is_str(result.err, line, "one line says what is wrong");
	is_u64((uint64_t)result.status, 2, "a wrong option is a usage error");
	is_str(result.out, "", "nothing is printed");
	verb_result_deinit(&result);
}

/* The last record of vCPU 1 is cut off. */
static void test_cut(const char *dir)
{
	const char *argv[] = {"events", "--event", "kmem_cache_alloc", dir, NULL};
	struct verb_result result;
	size_t size;
	char *bytes = file_get(dir, "cpu1", &size);

	file_put(dir, "cpu1", bytes, size - 1);
	result = verb_run(cmd_events, argv);
	is_str(result.out, ALLOC, "the events of a trace that is cut off are printed");
	ok(!strncmp(result.err, "Lost   cpu1: ", 13), "standard error says where it is cut off");
	verb_result_deinit(&result);
	file_put(dir, "cpu1", bytes, size);
	free(bytes);
}

static void test_refusals(const char *dir)
{
	refuses(dir, "--filter", "byts_req > 1",
		"sonde events: filter, character 1: no event has a field 'byts_req'; did you mean "
		"'bytes_req'?\n  byts_req > 1\n  ^\n");
	refuses(dir, "--filter", "ptr ==",
		"sonde events: filter, character 7: a number or a string is missing\n"
		"  ptr ==\n        ^\n");
	refuses(dir, "--event", "none",
		"sonde events: --event: no event has the name 'none': take kmalloc, "
		"kmem_cache_alloc, mm_page_alloc, kfree, kmem_cache_free or mm_page_free\n");
	refuses(dir, "--vcpu", "2,9",
		"sonde events: --vcpu: the trace has none of these: it has 2, from 0 on\n");
	refuses(dir, "--vcpu", "1-", "sonde events: --vcpu: '1-' is not a list such as 0,2-3\n");
	refuses(dir, "--time", "5",
		"sonde events: --time: '5' is not a range of seconds such as 5,10 or 2.5,\n");
	refuses(dir, "--time", "5,4",
		"sonde events: --time: '5,4' is not a range of seconds such as 5,10 or 2.5,\n");
}

/* --- functions: `ip` is where the mcount site lies, behind an ENDBR --------------------------- */

#define CALL_READ \
	"[000]     0.000000001 function:function: ip=vfs_read parent_ip=ksys_read+0x20/0x90\n"
#define CALL_MODULE                                                        \
	"[000]     0.000000002 function:function: ip=ext4_sync_fs [ext4] " \
	"parent_ip=0xffffffff81000777\n"

static int name_function(void *arg, uint64_t address, struct site_function *out)
{
	static const struct {
		uint64_t start;
		const char *name;
	} functions[] = {{0xffffffff81001000, "vfs_read"},
			 {0xffffffff81002000, "ksys_read"},
			 {0xffffffffc0001000, "ext4_sync_fs [ext4]"}};

	(void)arg;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (address - functions[i].start >= 0x90)
			continue;
		out->start = functions[i].start;
		out->size = 0x90;
		snprintf(out->name, sizeof(out->name), "%s", functions[i].name);
		return 0;
	}
	return -ENOENT;
}

static void put_calls(const char *dir)
{
	static const struct trace_info info = {.tool_version = "1"};
	const struct trace_instance instance = {.name = "function",
						.spec = "function",
						.classes = function_class(FUNCTION_PARENT),
						.nr_classes = 1};
	const struct function_event calls[] = {
		{.ip = 0xffffffff81001004, .parent_ip = 0xffffffff81002020},
		{.ip = 0xffffffffc0001000, .parent_ip = 0xffffffff81000777}};
	struct event_batch batch = {0};
	struct trace_writer *writer;
	struct event_sink *sink;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL) < 0)
		abort();
	sink = trace_writer_sink(writer, 0, 0);
	if (event_batch_put(&batch, sink, 0, 1, &calls[0]) ||
	    event_batch_put(&batch, sink, 0, 2, &calls[1]))
		abort();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, name_function, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void test_functions(void)
{
	struct scratch scratch = scratch_make();
	const char *argv[] = {"events", "--json", "--filter", "ip == vfs_read", scratch.path, NULL};
	struct verb_result result;
	char *metadata;

	put_calls(scratch.path);
	said = "";
	prints(scratch.path, NULL, NULL, CALL_READ CALL_MODULE);
	prints(scratch.path, "--filter", "ip ~ vfs_read", CALL_READ);
	prints(scratch.path, "--filter", "ip.function == vfs_read", CALL_READ);
	said = "sonde events: no event is one that --filter chooses\n";
	prints(scratch.path, "--filter", "ip ~ 'vfs_*+*'", "");
	said = "";
	prints(scratch.path, "--filter", "ip ~ '* [[]ext4]'", CALL_MODULE);
	prints(scratch.path, "--filter", "parent_ip ~ 'ksys_*+0x20'", CALL_READ);
	result = verb_run(cmd_events, argv);
	ok(strstr(result.out, "\"ip\":\"0xffffffff81001004\",\"ip_symbol\":\"vfs_read\""),
	   "in JSON, too, a function has no offset");
	verb_result_deinit(&result);
	metadata = file_get(scratch.path, "metadata", NULL);
	ok(metadata && strstr(metadata, "\"vfs_read\" = ") &&
		   strstr(metadata, "\"ksys_read+0x20/0x90\" = "),
	   "nor in the metadata for other readers");
	free(metadata);
	scratch_remove(&scratch);
}

int main(void)
{
	struct scratch scratch = scratch_make();

	put_trace(scratch.path);
	test_selection(scratch.path);
	test_nothing(scratch.path);
	test_json(scratch.path);
	test_cut(scratch.path);
	test_refusals(scratch.path);
	test_functions();
	scratch_remove(&scratch);
	return tap_done();
}
