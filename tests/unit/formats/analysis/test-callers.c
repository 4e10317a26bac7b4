/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where events have call chains, callers are charged with what wrappers and allocators allocate for
 * them, in every output alike, and sums over all stay what they are without. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/kmem.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { PAGE = 4096, MOST_FRAMES = 5 };
#define TEXT UINT64_C(0xffffffff81000010)
#define HEAP UINT64_C(0xffff888000000000)
#define CUT EVENT_STACK_CUT

/* Functions, by the digit of their address above the last three. */
enum function {
	NOWHERE,
	KVMALLOC,
	VMALLOC,
	READER,
	WRITER,
	INITCALLS,
	SLAB_SYSFS,
	NEW_SLAB,
	CACHE_ALLOC,
	BULK,
};
static const char *const names[] = {[KVMALLOC] = "kvmalloc_node",
				    [VMALLOC] = "__vmalloc_node_range",
				    [READER] = "reader",
				    [WRITER] = "writer",
				    [INITCALLS] = "do_one_initcall",
				    [SLAB_SYSFS] = "slab_sysfs_init",
				    [NEW_SLAB] = "allocate_slab",
				    [CACHE_ALLOC] = "kmem_cache_alloc",
				    [BULK] = "alloc_pages_bulk_array"};

static uint64_t at(enum function function)
{
	return TEXT + 0x1000 * (uint64_t)function;
}

static int name(void *arg, uint64_t address, struct site_function *out)
{
	const size_t number = address >> 12 & 0xf;

	if (name_numbered(arg, address, out) || number >= sizeof(names) / sizeof(names[0]))
		return -ENOENT;
	snprintf(out->name, sizeof(out->name), "%s", names[number]);
	return 0;
}

/* An allocation by the first function, and from where that was called; of slab objects at their
 * number times a page from HEAP, of pages in blocks far above. */
struct made {
	uint64_t type, bytes;
	enum function site, chain[MOST_FRAMES];
	bool is_cut, is_freed;
};
static const struct made made[] = {
	{KMEM_TYPE_KMALLOC, 64, KVMALLOC, {KVMALLOC, READER, INITCALLS}, false, false},
	{KMEM_TYPE_KMALLOC, 128, KVMALLOC, {KVMALLOC, VMALLOC, WRITER}, false, true},
	{KMEM_TYPE_KMALLOC, 32, KVMALLOC, {KVMALLOC, VMALLOC}, true, false},
	{KMEM_TYPE_KMALLOC, 512, KVMALLOC, {BULK, READER}, false, false},
	{KMEM_TYPE_KMALLOC, 16, KVMALLOC, {KVMALLOC, SLAB_SYSFS, INITCALLS}, false, false},
	{KMEM_TYPE_KMALLOC, 8, NEW_SLAB, {NEW_SLAB, CACHE_ALLOC, WRITER}, false, false},
	{KMEM_TYPE_KMALLOC, 256, READER, {READER, WRITER}, false, false},
	{KMEM_TYPE_PAGES, 2 * PAGE, VMALLOC, {BULK, VMALLOC, WRITER}, false, false},
	{KMEM_TYPE_PAGES, PAGE, NEW_SLAB, {NEW_SLAB, CACHE_ALLOC, READER}, false, false},
	{KMEM_TYPE_PAGES, 2 * PAGE, BULK, {BULK, VMALLOC, WRITER}, false, false},
	{KMEM_TYPE_PAGES, PAGE, BULK, {BULK, NEW_SLAB, CACHE_ALLOC, READER}, false, false},
};
enum { NR_MADE = sizeof(made) / sizeof(made[0]) };

static uint64_t place_of(size_t i)
{
	return HEAP + (i + 1) * 16 * PAGE;
}

static struct kmem_stack_record alloc_of(size_t i)
{
	const struct made *m = &made[i];
	struct kmem_stack_record out = {.call.record =
						make_alloc((unsigned int)m->type, place_of(i),
							   at(m->site), m->bytes, m->bytes, 0)};
	size_t n = 0;

	for (; n < MOST_FRAMES && m->chain[n]; n++)
		out.stack[n] = at(m->chain[n]);
	if (m->is_cut)
		out.stack[n] = CUT;
	return out;
}

static void put(struct event_batch *batch, struct event_sink *sink,
		const struct kmem_stack_record *event, int64_t ns)
{
	if (event_batch_put(batch, sink, kmem_class_of(&event->call.record), ns, event))
		abort();
}

/* An object each 100 ms for 16 s, which stay. */
static void put_leak(struct event_sink *sink)
{
	struct event_batch batch = {0};
	struct kmem_stack_record event = alloc_of(0);

	for (int64_t i = 0; i < 160; i++) {
		event.call.record.ptr += 64;
		put(&batch, sink, &event, (20 + i) * 100 * 1000 * 1000);
	}
	event_batch_end(&batch);
}

static void put_events(struct event_sink *sink)
{
	struct event_batch batch = {0};
	int64_t ns = 0;

	for (size_t i = 0; i < NR_MADE; i++) {
		const struct kmem_stack_record event = alloc_of(i);

		put(&batch, sink, &event, ++ns);
	}
	for (size_t i = 0; i < NR_MADE; i++) {
		const struct kmem_stack_record event = {
			.call.record =
				make_free((unsigned int)made[i].type, place_of(i), at(READER), 0),
			.stack = {at(READER)}};

		if (made[i].is_freed)
			put(&batch, sink, &event, ++ns);
	}
	event_batch_end(&batch);
}

static void put_trace(const char *dir, unsigned int fields, void put_all(struct event_sink *sink))
{
	static const struct trace_info info = {.tool_version = "1"};
	const struct trace_instance instance = {.name = "kmem",
						.spec = "kmem",
						.classes = kmem_classes_of(fields),
						.nr_classes = KMEM_NR_CLASSES};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL) < 0)
		abort();
	put_all(trace_writer_sink(writer, 0, 0));
	if (trace_writer_finish(writer, &info, name, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

/* --- checks ---------------------------------------------------------------------------------- */

static json_t *report(const char *dir, const char *by)
{
	const char *argv[] = {"report", "--json", "--top", "0", "--by", by, dir, NULL};

	return verb_json(cmd_report, argv);
}

static uint64_t count(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* Of the group whose text begins so: allocations, and live bytes. */
static void has_group(const json_t *groups, const char *key, const char *begin, uint64_t hits,
		      uint64_t live)
{
	const json_t *group;
	size_t i;
	uint64_t all_hits = 0, all_live = 0;

	json_array_foreach(groups, i, group)
	{
		const char *text = json_string_value(json_object_get(group, key));

		if (!text || strncmp(text, begin, strlen(begin)))
			continue;
		all_hits += count(group, "hits");
		all_live += count(group, "live_bytes");
	}
	if (!ok(all_hits == hits && all_live == live, "%s has what it is charged with", begin))
		tap_diag("%llu allocations, %llu B", (unsigned long long)all_hits,
			 (unsigned long long)all_live);
}

static uint64_t sum_of(const json_t *groups, const char *key)
{
	const json_t *group;
	size_t i;
	uint64_t sum = 0;

	json_array_foreach(groups, i, group) sum += count(group, key);
	return sum;
}

static void test_sites(const char *deep)
{
	json_t *root = report(deep, "callsite"), *sites = json_object_get(root, "call_sites");

	has_group(sites, "symbol", "reader+0x10/0x90", 2, 64 + 256);
	has_group(sites, "symbol", "writer+0x10/0x90", 4, 8 + 4 * PAGE);
	has_group(sites, "symbol", "kvmalloc_node+0x10/0x90", 2, 32 + 512);
	has_group(sites, "symbol", "slab_sysfs_init+0x10/0x90", 1, 16);
	has_group(sites, "symbol", "allocate_slab+0x10/0x90", 2, 2 * PAGE);
	has_group(sites, "symbol", "alloc_pages_bulk_array", 0, 0);
	has_group(sites, "symbol", "__vmalloc_node_range", 0, 0);
	has_group(sites, "symbol", "do_one_initcall", 0, 0);
	json_decref(root);
	root = report(deep, "function");
	sites = json_object_get(root, "functions");
	has_group(sites, "function", "reader", 2, 64 + 256);
	has_group(sites, "function", "writer", 4, 8 + 4 * PAGE);
	has_group(sites, "function", "kvmalloc_node", 2, 32 + 512);
	json_decref(root);
}

static void test_plain(const char *plain)
{
	json_t *root = report(plain, "callsite"), *sites = json_object_get(root, "call_sites");

	has_group(sites, "symbol", "kvmalloc_node+0x10/0x90", 5, 64 + 32 + 512 + 16);
	has_group(sites, "symbol", "__vmalloc_node_range+0x10/0x90", 1, 2 * PAGE);
	has_group(sites, "symbol", "writer", 0, 0);
	json_decref(root);
}

/* Nothing is counted twice, or not at all. */
static void test_totals(const char *deep, const char *plain)
{
	static const char *const same[] = {"alloc_events",    "free_events",  "live_bytes",
					   "live_objects",    "frees",        "bytes_requested",
					   "bytes_allocated", "unknown_frees"};
	static const char *const sums[] = {"live_bytes", "live_objects", "frees", "bytes_requested",
					   "bytes_allocated"};
	json_t *a = report(deep, "callsite"), *b = report(plain, "callsite");
	const json_t *sites = json_object_get(a, "call_sites");

	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		is_u64(count(a, same[i]), count(b, same[i]), same[i]);
	ok(json_equal(json_object_get(a, "types"), json_object_get(b, "types")),
	   "the sums of each type are the same with call chains");
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		is_u64(sum_of(sites, sums[i]), sum_of(json_object_get(b, "call_sites"), sums[i]),
		       sums[i]);
	is_u64(sum_of(sites, "hits"), NR_MADE, "each allocation is one of a call site");
	json_decref(a);
	json_decref(b);
}

static void shows(int (*verb)(int, char **), const char *const *argv, const char *line, bool wanted)
{
	struct verb_result result = verb_run(verb, argv);

	if (!ok(!strstr(result.out, line) != wanted, "%s: %s'%s'", argv[0], wanted ? "" : "no ",
		line))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
}

/* Marked is what has a caller that is not known. */
static void test_text(const char *deep, const char *plain)
{
	const char *const of_deep[] = {"report", "--top", "0", deep, NULL};
	const char *const of_plain[] = {"report", "--top", "0", plain, NULL};
	char address[32];
	const char *const history[] = {"report", "--history", address, deep, NULL};

	shows(cmd_report, of_deep, "kvmalloc_node+0x10/0x90 *", true);
	shows(cmd_report, of_deep, "slab_sysfs_init+0x10/0x90 *", true);
	shows(cmd_report, of_deep, "writer+0x10/0x90 *", false);
	shows(cmd_report, of_deep, "* allocates for its callers, which its call chains do not name",
	      true);
	shows(cmd_report, of_plain,
	      "* allocates for its callers, which a trace with call chains names: --trace "
	      "kmem:stack",
	      true);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)place_of(1));
	shows(cmd_report, history, "  writer+0x10/0x90 ", true);
	shows(cmd_report, history, "  kvmalloc_node+0x10/0x90 ", false);
}

static char *convert(const char *dir, const char *format, size_t *size)
{
	struct scratch out = scratch_make();
	char path[256];
	const char *argv[] = {"convert", dir, "--to", format, "-o", path, NULL};
	struct verb_result result;
	char *bytes;

	snprintf(path, sizeof(path), "%s/%s", out.path, format);
	result = verb_run(cmd_convert, argv);
	verb_result_deinit(&result);
	bytes = file_get(out.path, format, size);
	scratch_remove(&out);
	return bytes;
}

static bool has(const char *bytes, size_t size, const char *text)
{
	return bytes && memmem(bytes, size, text, strlen(text));
}

/* Tables of call sites; events stay as they are recorded. */
static void test_tables(const char *deep)
{
	size_t size;
	char *events = convert(deep, "csv", NULL), *sites = convert(deep, "rowbinary-sites", &size);

	ok(has(sites, size, "writer+0x10/0x90"), "tables of call sites have callers");
	ok(!has(sites, size, "__vmalloc_node_range"), "and none of whom is known what for");
	ok(events && strstr(events, "__vmalloc_node_range+0x10/0x90"),
	   "tables of events have the call sites that were recorded");
	free(events);
	free(sites);
}

static void test_html(const char *deep)
{
	const char *argv[] = {"report", "--html", "-", deep, NULL};
	struct verb_result result = verb_run(cmd_report, argv);
	const char *page = result.out;

	ok(page && strstr(page, "\"writer+0x10/0x90\""), "pages have callers");
	ok(page && !strstr(page, "__vmalloc_node_range"), "instead of wrappers");
	verb_result_deinit(&result);
}

/* Of two traces one of which has call chains, the recorded call sites are compared. */
static void test_diff(const char *deep, const char *plain)
{
	static const char line[] = "as recorded, as ";
	const char *const mixed[] = {"diff", plain, deep, NULL};
	const char *const swapped[] = {"diff", deep, plain, NULL};
	const char *const chosen[] = {"diff", "-f", "call_site ~ \"writer*\"", plain, deep, NULL};
	const char *const both[] = {"diff", deep, deep, NULL};
	const char *const json[] = {"diff", "--json", "--by", "function", deep, plain, NULL};
	json_t *root = verb_json(cmd_diff, json), *item;
	size_t i;

	shows(cmd_diff, mixed, "Changes       0 of 5 are significant\n", true);
	shows(cmd_diff, mixed, "as recorded, as A has no call chains", true);
	shows(cmd_diff, swapped, "as recorded, as B has no call chains", true);
	shows(cmd_diff, chosen, "Changes       0 of 0 are significant\n", true);
	shows(cmd_diff, both, line, false);
	ok(json_is_true(json_object_get(root, "call_chains_ignored")), "JSON says so, too");
	json_array_foreach(json_object_get(root, "changes"), i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));

		ok(strncmp(name, "writer", 6) &&
			   json_equal(json_object_get(item, "a"), json_object_get(item, "b")),
		   "%s is the same on both sides", name);
	}
	json_decref(root);
}

/* The command that shows the objects of a caller finds them. */
static void test_leaks(void)
{
	static const char filter[] = "call_site.function == \"reader\"";
	const struct scratch leaky = scratch_make();
	const char *const leaks[] = {"leaks", leaky.path, NULL};
	const char *const objects[] = {"report",   "--by", "callsite,pointer", "--filter", filter,
				       leaky.path, NULL};

	put_trace(leaky.path, EVENT_TASK_STACK, put_leak);
	shows(cmd_leaks, leaks, "  reader+0x10/0x90 ", true);
	shows(cmd_leaks, leaks, "sonde report --by pointer --older ", true);
	shows(cmd_leaks, leaks, "--filter 'call_site.function == \"reader\"' ", true);
	shows(cmd_report, objects, "  reader+0x10/0x90", true);
	scratch_remove(&leaky);
}

/* --- filters --------------------------------------------------------------------------------- */

/* How many allocations a report has, and how many lines `sonde events` prints. */
static void chooses(const char *dir, const char *filter, uint64_t allocations, uint64_t lines)
{
	const char *const report_argv[] = {"report", "--json", "--filter", filter, dir, NULL};
	const char *const events_argv[] = {"events", "-e", "*alloc*", "-f", filter, dir, NULL};
	json_t *root = verb_json(cmd_report, report_argv);
	struct verb_result events = verb_run(cmd_events, events_argv);
	uint64_t n = 0;

	for (const char *at = events.out; (at = strstr(at, " kmem:")); at++)
		n++;
	is_u64(count(root, "alloc_events"), allocations, filter);
	is_u64(n, lines, "and of the events those with that call site");
	verb_result_deinit(&events);
	json_decref(root);
}

/* Analyses choose by the call sites that they show, lists of events by those that these have. */
static void test_filters(const char *deep, const char *plain)
{
	static const char *const other[] = {"kmem", "timeline", "leaks", "overview"};
	static const char recorded[] = "recorded_site ~ \"kvmalloc*\" && call_site == \"reader\"";
	const char *const report_argv[] = {"report", "--filter", recorded, deep, NULL};
	const char *const events_argv[] = {"events", "--filter", recorded, deep, NULL};

	chooses(deep, "call_site ~ \"writer*\"", 4, 0);
	chooses(deep, "call_site == \"reader+0x10\"", 2, 1);
	chooses(deep, "call_site.function == \"kvmalloc_node\"", 2, 5);
	chooses(deep, "!(call_site ~ \"kvmalloc_*\")", NR_MADE - 2, NR_MADE - 5);
	chooses(plain, "call_site ~ \"writer*\"", 0, 0);
	chooses(plain, "call_site ~ \"kvmalloc_*\"", 5, 5);
	shows(cmd_report, report_argv, "64 B  reader+0x10/0x90", true);
	shows(cmd_report, report_argv, "writer", false);
	shows(cmd_events, events_argv, "kvmalloc", false);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		const char *const argv[] = {
			"report", "-a", other[i], "-f", "call_site == \"writer\"", deep, NULL};

		shows(cmd_report, argv, "16.0 KiB", true);
	}
}

int main(void)
{
	const struct scratch deep = scratch_make(), plain = scratch_make();

	put_trace(deep.path, EVENT_TASK_STACK, put_events);
	put_trace(plain.path, 0, put_events);
	test_sites(deep.path);
	test_plain(plain.path);
	test_totals(deep.path, plain.path);
	test_text(deep.path, plain.path);
	test_tables(deep.path);
	test_html(deep.path);
	test_diff(deep.path, plain.path);
	test_leaks();
	test_filters(deep.path, plain.path);
	scratch_remove(&deep);
	scratch_remove(&plain);
	return tap_done();
}
