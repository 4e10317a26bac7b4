/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/export-make.h"

#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"

enum { CACHES = 5, CODE_STEP = 64, FUNCTION_BYTES = 256, NS_APART = 1001 };

static const uint64_t text_base = 0xffffffff81000000, module_base = 0xffffffffc0000000,
		      nowhere = 0xffffffff9f000000, data_base = 0xffff888000000000;

const char export_make_bad[] = "</text>\"' },;{&\\\\|%s\n";

static const struct trace_info info = {
	.mode = "trap",
	.banner = "Linux version 6.1 <\"&>",
	.build_id = "0123456789abcdef",
	.page_size = 4096,
	.started_realtime_ns = 1700000000000000000,
	.gfp_names = {{0xcc0, "GFP_KERNEL"}, {0x100, "__GFP_ZERO"}},
	.nr_gfp_names = 2,
};

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	const bool is_module = address >= module_base;

	(void)arg;
	if (address < text_base || (address >= nowhere && !is_module))
		return -1;
	out->start = address & ~(uint64_t)(FUNCTION_BYTES - 1);
	out->size = FUNCTION_BYTES;
	if (out->start == text_base)
		snprintf(out->name, sizeof(out->name), "bad%s", export_make_bad);
	else
		snprintf(out->name, sizeof(out->name), "%s_%x%s", is_module ? "mod" : "fn",
			 (unsigned int)(out->start & 0xffff), is_module ? " [ext4]" : "");
	return 0;
}

static uint64_t code(unsigned int i)
{
	const uint64_t bases[] = {text_base, module_base, text_base, nowhere};

	return bases[i % 4] + i % 40 * CODE_STEP;
}

/* Apart enough that all readers agree on the order; 100 of them step back by a second. */
static int64_t time_of(unsigned int i)
{
	int64_t ns = 5000000000 + (int64_t)i * NS_APART;

	if (i >= 1000)
		ns += INT64_C(40000000000);
	return i % 300 == 299 ? ns - 1000000000 : ns;
}

static struct kmem_record record_of(unsigned int i)
{
	const unsigned int type = i % KMEM_TYPE_COUNT;
	const uint64_t ptr = data_base + (uint64_t)(i % 500) * 4096;
	struct kmem_record record;

	if (i % 5 >= 3)
		record = make_free(type, ptr, code(i), time_of(4 * i));
	else
		record = make_alloc(type, ptr, code(i), 60, type == KMEM_TYPE_PAGES ? 60 : 64,
				    time_of(4 * i));
	if (i % 5 < 3) {
		record.gfp_flags = i % 7 ? 0xcc0 | (i % 2 ? 0x100 : 0x10000) : 0;
		record.node = i % 11 ? -1 : 3;
	}
	if (type == KMEM_TYPE_CACHE)
		record.cache = (uint16_t)(i / 3 % (CACHES + 1));
	if (i % 97 == 0)
		record.event_id = 77;
	return record;
}

static struct function_event function_of(unsigned int i)
{
	struct function_event event = {
		.ip = code(i), .parent_ip = code(i + 1), .pid = i % 4 ? i % 4 + 100 : 0};

	if (i % 4 == 3)
		memcpy(event.comm, export_make_bad, sizeof(event.comm));
	else
		snprintf(event.comm, sizeof(event.comm), "task-%u", i % 4);
	return event;
}

/* A class that this program does not know, with what its own have not. */
struct thing {
	int64_t far;
	uint32_t mask;
	int16_t small;
	uint16_t port;
	int8_t tiny;
	uint8_t level;
	char what[6];
	char path[EVENT_LONG_STRING_MAX];
};

#define FIELD(member, type_)                                                                 \
	{                                                                                    \
		.name = #member, .type = type_, .size = sizeof(((struct thing *)0)->member), \
		.at = offsetof(struct thing, member), .bits = {                              \
			8 * sizeof(((struct thing *)0)->member)                              \
		}                                                                            \
	}

static const struct event_field thing_fields[] = {FIELD(tiny, EVENT_INT),
						  FIELD(far, EVENT_INT),
						  FIELD(mask, EVENT_HEX),
						  FIELD(small, EVENT_INT),
						  FIELD(what, EVENT_STRING),
						  FIELD(port, EVENT_UINT),
						  {.name = "path",
						   .type = EVENT_LONG_STRING,
						   .size = 1,
						   .at = offsetof(struct thing, path),
						   .bits = {8}},
						  FIELD(level, EVENT_UINT)};
static const struct event_class thing_class = {.system = "other",
					       .name = "thing",
					       .fields = thing_fields,
					       .nr_fields = 8,
					       .size = sizeof(struct thing),
					       .nr_forms = 1};

/* Some are hostile, some are as long as can be, or were cut. */
static void make_path(char path[EVENT_LONG_STRING_MAX], unsigned int i)
{
	const unsigned int most = EVENT_LONG_STRING_MAX;
	unsigned int n = i / 4 % 16 == 1 ? most - 1 : i / 4 % 16 == 2 ? most : i % 200;

	if (i / 4 % 16 == 3) {
		snprintf(path, most, "%s", export_make_bad);
		return;
	}
	for (unsigned int k = 0; k < n; k++)
		path[k] = k % 10 ? (char)('a' + (i + k) % 26) : '/';
}

static struct thing thing_of(unsigned int i)
{
	const int sign = i % 2 ? -1 : 1;
	struct thing thing = {.far = sign * (int64_t)(i * UINT64_C(0x123456789abc)),
			      .mask = i * 0x1234567,
			      .small = (int16_t)(sign * (int)(i % 30000)),
			      .port = (uint16_t)(i * 21),
			      .tiny = (int8_t)(sign * (int)(i % 120)),
			      .level = (uint8_t)i};

	snprintf(thing.what, sizeof(thing.what), "w%u", i % 10);
	make_path(thing.path, i);
	return thing;
}

static void put_other(struct trace_writer *writer, int number, unsigned int vcpu, unsigned int i)
{
	const struct function_event function = function_of(i);
	const struct thing thing = thing_of(i);
	struct event_batch batch = {0};

	if (event_batch_put(&batch, trace_writer_sink(writer, (unsigned int)number, vcpu), 0,
			    time_of(i), i % 4 == 3 ? (const void *)&thing : &function))
		abort();
	event_batch_end(&batch);
}

/* Of four events, one is of kmem. */
static void put_event(struct trace_writer *writer, const int *others, unsigned int i)
{
	const unsigned int vcpu = i / 4 % (EXPORT_MAKE_VCPUS - 1);
	const struct kmem_record record = record_of(i / 4);

	if (i % 4)
		put_other(writer, others[i % 4 - 1], vcpu, i);
	else if (trace_writer_append(writer, vcpu, &record))
		abort();
}

static int add(struct trace_writer *writer, const char *name, const struct event_class *class)
{
	const struct trace_instance instance = {
		.name = name, .spec = class->system, .classes = class, .nr_classes = 1};
	int ret = trace_writer_add_instance(writer, &instance, NULL);

	if (ret < 0)
		abort();
	return ret;
}

static void add_caches(struct trace_writer *writer)
{
	for (unsigned int i = 1; i <= CACHES; i++) {
		char name[64];

		snprintf(name, sizeof(name),
			 i == 2   ? "%s"
			 : i == 3 ? "=1+1"
				  : "cache-%.0s%u",
			 export_make_bad, i);
		trace_writer_cache_id(writer, name, i, i);
	}
}

void export_make(const char *dir)
{
	struct trace_writer *writer;
	int others[3];

	if (trace_writer_create(dir, EXPORT_MAKE_VCPUS, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &kmem_instance, NULL))
		abort();
	others[0] = add(writer, "function",
			function_class(FUNCTION_PARENT | FUNCTION_PID | FUNCTION_COMM));
	others[1] = add(writer, "calls", function_class(FUNCTION_PARENT));
	others[2] = add(writer, "other", &thing_class);
	add_caches(writer);
	for (unsigned int i = 0; i < EXPORT_MAKE_EVENTS; i++)
		put_event(writer, others, i);
	trace_writer_add_overruns(writer, 0, 1, EXPORT_MAKE_LOST);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

void export_make_convert(const char *dir, const char *format, const char *out, const char *option)
{
	const char *const argv[] = {"convert", dir, "--to", format, "-o", out, option, NULL};
	struct verb_result result = verb_run(cmd_convert, argv);

	if (!ok(!result.status, "sonde convert --to %s exits with 0", format))
		tap_diag("%s", result.err);
	verb_result_deinit(&result);
}
