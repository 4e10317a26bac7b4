/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of allocations: what is live belongs to the chain that allocated it, though others
 * have the same call site. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/kmem.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

enum { PAGE = 4096, FIELDS = EVENT_TASK_STACK | EVENT_TASK_PID };
#define SITE UINT64_C(0xffffffff81001010)
#define READ UINT64_C(0xffffffff81002020)
#define WRITE UINT64_C(0xffffffff81003030)
#define OBJECT UINT64_C(0xffff888000001000)
#define BLOCK UINT64_C(0xffff888000400000)

static int64_t now;
static struct event_batch batch;
static struct event_sink *sink;

static void put(struct kmem_record record, uint64_t caller)
{
	struct kmem_stack_record event = {.call = {record, {.pid = 5}}, .stack = {SITE, caller}};

	if (event_batch_put(&batch, sink, kmem_class_of(&record), ++now, &event))
		abort();
}

static void put_alloc(unsigned int type, uint64_t ptr, uint64_t bytes, uint64_t caller)
{
	put(make_alloc(type, ptr, SITE, bytes, bytes, 0), caller);
}

/* A block of pages says how many are freed. */
static void put_free(unsigned int type, uint64_t ptr, uint64_t bytes)
{
	struct kmem_record record = make_free(type, ptr, SITE, 0);

	record.bytes_req = record.bytes_alloc = bytes;
	put(record, READ);
}

/* Of two callers; of a block of four pages one is freed alone. */
static void put_events(void)
{
	put_alloc(KMEM_TYPE_KMALLOC, OBJECT, 64, READ);
	put_alloc(KMEM_TYPE_KMALLOC, OBJECT + 64, 64, WRITE);
	put_alloc(KMEM_TYPE_KMALLOC, OBJECT + 128, 64, WRITE);
	put_free(KMEM_TYPE_KMALLOC, OBJECT, 0);
	put_alloc(KMEM_TYPE_PAGES, BLOCK, 4 * PAGE, READ);
	put_alloc(KMEM_TYPE_PAGES, BLOCK + 4 * PAGE, PAGE, WRITE);
	put_free(KMEM_TYPE_PAGES, BLOCK + 2 * PAGE, PAGE);
	put_free(KMEM_TYPE_PAGES, BLOCK + 3 * PAGE, PAGE);
}

/* All are one that allocates for its callers. */
static int name_wrapper(void *arg, uint64_t address, struct site_function *out)
{
	const int ret = name_numbered(arg, address, out);

	snprintf(out->name, sizeof(out->name), "kvmalloc_node");
	return ret;
}

static void put_trace(const char *dir, trace_symbolize_fn *name)
{
	static const struct trace_info info = {.tool_version = "1"};
	const struct trace_instance instance = {.name = "kmem",
						.spec = "kmem:stack,pid",
						.classes = kmem_classes_of(FIELDS),
						.nr_classes = KMEM_NR_CLASSES};
	struct trace_writer *writer;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL) < 0)
		abort();
	sink = trace_writer_sink(writer, 0, 0);
	put_events();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, name, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void folds(const char *dir, const char *value, const char *lines)
{
	struct scratch out = scratch_make();
	char path[256];
	const char *argv[] = {"convert", dir, "--to", "folded", "-v", value, "-o", path, NULL};
	struct verb_result result;
	char *folded;

	snprintf(path, sizeof(path), "%s/%s", out.path, value);
	result = verb_run(cmd_convert, argv);
	verb_result_deinit(&result);
	folded = file_get(out.path, value, NULL);
	scratch_remove(&out);
	ok(folded && !strcmp(folded, lines), "folded by %s", value);
	free(folded);
}

static void prints(const char *dir)
{
	const char *argv[] = {"events", dir, "--filter", "bytes_req == 16384", NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	is_str(result.out,
	       "[000]     0.000000005 kmem:mm_page_alloc: pid=5 call_site=f1+0x10/0x90 "
	       "ptr=0xffff888000400000 bytes_req=16384 gfp_flags=0xcc0 node=-1\n"
	       "\t0xffffffff81001010 f1+0x10/0x90\n"
	       "\t0xffffffff81002020 f2+0x20/0x90\n",
	       "an allocation is printed with its chain");
	verb_result_deinit(&result);
}

/* A chain of wrappers alone names no caller. */
static void lacks_callers(void)
{
	const struct scratch scratch = scratch_make();
	const char *const argv[] = {"report", "--by", "callsite", scratch.path, NULL};
	struct verb_result result;

	put_trace(scratch.path, name_wrapper);
	result = verb_run(cmd_report, argv);
	if (!ok(strstr(result.out, "\n* allocates for its callers, which its call chains do not "
				   "name\n"),
		"the report says that the chains end below those who called"))
		tap_diag("%s%s", result.out, result.err);
	verb_result_deinit(&result);
	scratch_remove(&scratch);
}

/* What allocates does so for its callers. */
static int name_first_wrapper(void *arg, uint64_t address, struct site_function *out)
{
	return address == SITE ? name_wrapper(arg, address, out) : name_numbered(arg, address, out);
}

static void selects(const char *dir, const char *filter, const char *note, const char *symbol)
{
	const char *const argv[] = {"convert",  dir,    "--to", "rowbinary-sites", "--output", "-",
				    "--filter", filter, NULL};
	struct verb_result result = verb_run(cmd_convert, argv);

	if (!ok(!result.status && strstr(result.err, note), "of %s there are: %s", filter, note))
		tap_diag("%s", result.err);
	/* the first row: without a host; instance, call site, symbol */
	ok(!strncmp(result.out + 1 + 5 + 8 + 1, symbol, strlen(symbol)),
	   "the first row is of who is charged");
	verb_result_deinit(&result);
}

/* Filters are on what the table has. */
static void charges_callers(void)
{
	const struct scratch scratch = scratch_make();

	put_trace(scratch.path, name_first_wrapper);
	selects(scratch.path, "call_site.function == \"f3\"", " 3 records ", "f3+0x30/0x90");
	selects(scratch.path,
		"recorded_site.function == \"kvmalloc_node\" && call_site.function == \"f2\"",
		" 2 records ", "f2+0x20/0x90");
	scratch_remove(&scratch);
}

int main(void)
{
	struct scratch scratch = scratch_make();

	put_trace(scratch.path, name_numbered);
	folds(scratch.path, "count",
	      "kmem:kfree;f2;f1 1\n"
	      "kmem:kmalloc;f2;f1 1\n"
	      "kmem:kmalloc;f3;f1 2\n"
	      "kmem:mm_page_alloc;f2;f1 1\n"
	      "kmem:mm_page_alloc;f3;f1 1\n"
	      "kmem:mm_page_free;f2;f1 2\n");
	folds(scratch.path, "bytes",
	      "kmem:kmalloc;f2;f1 64\n"
	      "kmem:kmalloc;f3;f1 128\n"
	      "kmem:mm_page_alloc;f2;f1 16384\n"
	      "kmem:mm_page_alloc;f3;f1 4096\n");
	folds(scratch.path, "live",
	      "kmem:kmalloc;f3;f1 128\n"
	      "kmem:mm_page_alloc;f2;f1 8192\n"
	      "kmem:mm_page_alloc;f3;f1 4096\n");
	prints(scratch.path);
	lacks_callers();
	charges_callers();
	scratch_remove(&scratch);
	return tap_done();
}
