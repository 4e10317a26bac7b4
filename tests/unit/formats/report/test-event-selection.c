/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which events of a trace with two tracers `sonde events` prints, and what it says of wrong wishes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define ALLOC                                                                            \
	"[000]     0.000000001 kmem:kmem_cache_alloc: call_site=f1+0x10/0x90 ptr=0x100 " \
	"bytes_req=190 bytes_alloc=192 cache=dentry gfp_flags=GFP_KERNEL|__GFP_ZERO node=-1\n"
#define CALL "[000]     0.000000002 calls function:function: ip=f2 parent_ip=f3+0x20/0x90\n"
#define PAGES                                                                          \
	"[000]     0.000000003 kmem:mm_page_alloc: call_site=f4+0x10/0x90 ptr=0x3000 " \
	"bytes_req=4096 gfp_flags=none node=-1\n"

enum { MAX_WORDS = 16 };

static const struct trace_info info = {
	.tool_version = "1",
	.gfp_names = {{0xcc0, "GFP_KERNEL"}, {0x100, "__GFP_ZERO"}},
	.nr_gfp_names = 2,
};

static void put_record(struct trace_writer *writer, struct kmem_record record, uint32_t flags)
{
	record.gfp_flags = flags;
	record.cache = record.type_id == KMEM_TYPE_CACHE
			       ? (uint16_t)trace_writer_cache_id(writer, "dentry", 190, 192)
			       : 0;
	trace_put(writer, 0, kmem_class_of(&record), record.timestamp, &record);
}

static void put_trace(const char *dir)
{
	const struct trace_instance calls = {.name = "calls",
					     .spec = "function",
					     .classes = function_class(FUNCTION_PARENT),
					     .nr_classes = 1};
	const struct function_event call = {.ip = 0x2000, .parent_ip = 0x3020};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL) < 0 ||
	    trace_writer_add_instance(writer, &calls, NULL) < 0)
		abort();
	put_record(writer, make_alloc(KMEM_TYPE_CACHE, 0x100, 0x1010, 190, 192, 1), 0xdc0);
	trace_put(writer, 1, 0, 2, &call);
	put_record(writer, make_alloc(KMEM_TYPE_PAGES, 0x3000, 0x4010, 4096, 4096, 3), 0);
	if (trace_writer_finish(writer, &info, name_numbered, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static struct verb_result run(const char *dir, const char *const *words)
{
	const char *argv[MAX_WORDS] = {"events", dir};

	for (size_t i = 0; words[i]; i++)
		argv[2 + i] = words[i];
	return verb_run(cmd_events, argv);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* `note`: on standard error. */
static void prints(const char *dir, const char *const *words, const char *out, const char *note)
{
	struct verb_result result = run(dir, words);
	char said[500];

	snprintf(said, sizeof(said), "%s%s", note,
		 *out ? "" : "sonde events: no event is one that --filter chooses\n");
	is_str(result.out, out, words[1]);
	is_str(result.err, said, "standard error has what is to be said");
	is_u64((uint64_t)result.status, 0, "it succeeds");
	verb_result_deinit(&result);
}

/* `line` ends with the place in a filter, if there is one: "\n  FILTER\n  ^". */
static void refuses(const char *dir, const char *const *words, const char *line)
{
	struct verb_result result = run(dir, words);
	char expected[500];

	snprintf(expected, sizeof(expected), "sonde events: %s\n", line);
	is_str(result.err, expected, words[1]);
	is_u64((uint64_t)result.status, 2, "a wrong option is a usage error");
	is_str(result.out, "", "nothing is printed");
	verb_result_deinit(&result);
}

/* Of several classes, what is wrong with the value is said, not that another one lacks the field.
 */
static void test_reasons(const char *dir)
{
	prints(dir, WORDS("-f", "ip == f2"), CALL, "");
	refuses(dir, WORDS("-f", "ip > foo"),
		"filter, character 6: 'foo' is not a number\n"
		"  ip > foo\n       ^");
	refuses(dir, WORDS("-f", "vcpu == 0 && bytes_rq > 1"),
		"filter, character 14: no event has a field 'bytes_rq'; did you mean 'bytes_req'?\n"
		"  vcpu == 0 && bytes_rq > 1\n               ^");
	refuses(dir, WORDS("-f", "parent_i == f3"),
		"filter, character 1: no event has a field 'parent_i'; did you mean 'parent_ip'?\n"
		"  parent_i == f3\n  ^");
	refuses(dir, WORDS("-f", "common_pid == 3"),
		"filter, character 1: no event has a field 'common_pid': it is recorded with the "
		"word 'pid', see sonde-run(1)\n"
		"  common_pid == 3\n  ^");
	refuses(dir, WORDS("-f", "ptr ~ 3"),
		"filter, character 7: '3' is a number, and ~ takes a pattern: compare by ==, or "
		"quote it\n"
		"  ptr ~ 3\n        ^");
	refuses(dir, WORDS("-f", "parent_ip.functio == f3"),
		"filter, character 1: no event has a field 'parent_ip.functio'; did you mean "
		"'parent_ip'?\n"
		"  parent_ip.functio == f3\n  ^");
	refuses(dir, WORDS("-f", "ptr != 0 && ip == f2"),
		"filter, character 13: no event has all fields of the filter: kmalloc has no field "
		"'ip'\n"
		"  ptr != 0 && ip == f2\n              ^");
	refuses(dir, WORDS("-f", "parent_i == f3", "-e", "function"),
		"filter, character 1: function has no field 'parent_i'; did you mean 'parent_ip'?\n"
		"  parent_i == f3\n  ^");
}

/* Bits by name, in any order. */
static void test_flags(const char *dir)
{
	prints(dir, WORDS("-f", "gfp_flags == '__GFP_ZERO|GFP_KERNEL'"), ALLOC, "");
	prints(dir, WORDS("-f", "gfp_flags != none"), ALLOC, "");
	prints(dir, WORDS("-f", "gfp_flags == none"), PAGES, "");
	refuses(dir, WORDS("-f", "gfp_flags == GFP_KERNAL"),
		"filter, character 14: 'GFP_KERNAL' is neither a number nor a flag of the field; "
		"did "
		"you mean 'GFP_KERNEL'?\n"
		"  gfp_flags == GFP_KERNAL\n               ^");
	refuses(dir, WORDS("-f", "gfp_flags & 'GFP_KERNEL|__GFP_ZER0'"),
		"filter, character 25: '__GFP_ZER0' is neither a number nor a flag of the field; "
		"did "
		"you mean '__GFP_ZERO'?\n"
		"  gfp_flags & 'GFP_KERNEL|__GFP_ZER0'\n                          ^");
}

/* Options that are given again add to what is wanted. */
static void test_several(const char *dir)
{
	prints(dir, WORDS("-e", "function", "-e", "mm_*"), CALL PAGES, "");
	prints(dir, WORDS("-i", "calls", "-i", "kmem"), ALLOC CALL PAGES, "");
	prints(dir, WORDS("-i", "calls"), CALL, "");
	prints(dir, WORDS("-i", "kmem", "-e", "mm_*"), PAGES, "");
	prints(dir, WORDS("-f", "ip == f2", "-f", "bytes_req > 1000"), CALL PAGES, "");
	prints(dir, WORDS("-f", "ptr == 0x100", "-f", "bytes_req > 1000"), ALLOC PAGES, "");
	refuses(dir, WORDS("-f", "ip == f2", "-f", "ptr == 0x100", "-e", "function"),
		"filter, character 1: function has no field 'ptr': take ip, parent_ip or vcpu\n  "
		"ptr == 0x100\n  ^");
	refuses(dir, WORDS("-e", "function", "-e", "none"),
		"--event: no event has the name 'none': take kmalloc, kmem_cache_alloc, "
		"mm_page_alloc, kfree, kmem_cache_free, mm_page_free or function");
	refuses(dir, WORDS("-i", "calls", "-i", "kmen"),
		"--instance takes kmem or calls, not 'kmen'");
	refuses(dir, WORDS("-f", "ip == f2", "-f", "ip > foo"),
		"filter, character 6: 'foo' is not a number\n  ip > foo\n       ^");
	refuses(dir, WORDS("-f", "ip == f2", "-f", "ip >"),
		"filter, character 5: a number or a string is missing\n  ip >\n      ^");
}

/* Names that nothing has. */
static void test_hints(const char *dir)
{
	refuses(dir, WORDS("-e", "functoin"),
		"--event: no event has the name 'functoin'; did you mean 'function'?");
	refuses(dir, WORDS("-e", "kmem:mm_page_aloc"),
		"--event: no event has the name 'kmem:mm_page_aloc'; did you mean "
		"'kmem:mm_page_alloc'?");
	refuses(dir, WORDS("-e", "functoin", "-i", "calls"),
		"--event: no event has the name 'functoin'; did you mean 'function'?");
	refuses(dir, WORDS("-e", "nothing:at_all", "-i", "calls"),
		"--event: no event has the name 'nothing:at_all': take function:function");
	refuses(dir, WORDS("-e", "functoin", "-i", "kmem"),
		"--event: no event has the name 'functoin': take kmalloc, kmem_cache_alloc, "
		"mm_page_alloc, kfree, kmem_cache_free or mm_page_free");
	prints(dir, WORDS("-f", "call_site == ff1"), "",
	       "sonde events: no function of the trace has the name 'ff1'; did you mean 'f1'?\n");
	prints(dir, WORDS("-f", "call_site == f1+0x11 || cache ~ dentri"), "",
	       "sonde events: no cache of the trace matches 'dentri'; did you mean 'dentry'?\n");
	prints(dir, WORDS("-f", "cache == dentri", "-f", "ip ~ 'ext4_*'"), "",
	       "sonde events: no cache of the trace has the name 'dentri'; did you mean 'dentry'?\n"
	       "sonde events: no function of the trace matches 'ext4_*'\n");
	prints(dir, WORDS("-f", "call_site !~ 'ext4_*' && !(cache == dentri)"), ALLOC, "");
	prints(dir, WORDS("-f", "call_site == f1 && cache == dentry"), ALLOC, "");
	prints(dir, WORDS("-f", "call_site == f1+0x10/0x90"), ALLOC, "");
	prints(dir, WORDS("-f", "call_site.function == f1+0x10/0x90"), "", "");
	prints(dir, WORDS("-f", "call_site ~ '0xf*' || cache == -"), "", "");
}

int main(void)
{
	struct scratch scratch = scratch_make();

	put_trace(scratch.path);
	prints(scratch.path, WORDS("-e", "*"), ALLOC CALL PAGES, "");
	test_reasons(scratch.path);
	test_flags(scratch.path);
	test_several(scratch.path);
	test_hints(scratch.path);
	scratch_remove(&scratch);
	return tap_done();
}
