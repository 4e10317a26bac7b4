/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of function events: as text, as JSON, as a value of a filter, and folded. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cmd.h"
#include "formats/event/function.h"
#include "formats/trace/writer.h"
#include "tests/lib/tap.h"
#include "tests/lib/trace-make.h"

#define READ UINT64_C(0xffffffff81001000)
#define SYSCALL UINT64_C(0xffffffff81002020)
#define ENTRY UINT64_C(0xffffffff81003030)

#define WHOLE                                              \
	"[000]     0.000000001 function:function: ip=f1\n" \
	"\t0xffffffff81002020 f2+0x20/0x90\n"              \
	"\t0xffffffff81003030 f3+0x30/0x90\n"
#define CUT                                                \
	"[000]     0.000000002 function:function: ip=f1\n" \
	"\t0xffffffff81003030 f3+0x30/0x90\n"              \
	"\t[cut]\n"
#define UNKNOWN                                            \
	"[000]     0.000000003 function:function: ip=f1\n" \
	"\t[cut]\n"

/* Functions of 0x90 bytes, one every 0x1000. */
static int name_function(void *arg, uint64_t address, char *name, size_t size, uint64_t *start,
			 uint64_t *length)
{
	(void)arg;
	if (address % 0x1000 >= 0x90)
		return -ENOENT;
	*start = address - address % 0x1000;
	*length = 0x90;
	snprintf(name, size, "f%u", (unsigned int)(address >> 12 & 0xf));
	return 0;
}

static void put_trace(const char *dir)
{
	static const struct trace_info info = {.tool_version = "1"};
	const struct trace_instance instance = {.name = "function",
						.spec = "function:stack",
						.classes = function_class(FUNCTION_STACK),
						.nr_classes = 1};
	const struct function_stack_event events[] = {
		{.call.ip = READ, .stack = {SYSCALL, ENTRY}},
		{.call.ip = READ, .stack = {ENTRY, EVENT_STACK_CUT}},
		{.call.ip = READ, .stack = {EVENT_STACK_CUT}}};
	struct event_batch batch = {0};
	struct trace_writer *writer;
	struct event_sink *sink;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL) ||
	    trace_writer_add_instance(writer, &instance, NULL) < 0)
		abort();
	sink = trace_writer_sink(writer, 0, 0);
	for (int i = 0; i < 3; i++)
		if (event_batch_put(&batch, sink, 0, i + 1, &events[i]))
			abort();
	event_batch_end(&batch);
	if (trace_writer_finish(writer, &info, name_function, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}

static void prints(const char *dir, const char *option, const char *value, const char *out)
{
	const char *argv[] = {"events", dir, option, value, NULL};
	struct verb_result result = verb_run(cmd_events, argv);

	is_str(result.out, out, value ? value : "whole and cut chains");
	verb_result_deinit(&result);
}

static void test_folded(const char *dir)
{
	char path[256];
	const char *argv[] = {"convert", dir, "--to", "folded", "-o", path, NULL};
	struct verb_result result;
	char *folded;

	snprintf(path, sizeof(path), "%s/folded", dir);
	result = verb_run(cmd_convert, argv);
	verb_result_deinit(&result);
	folded = file_get(dir, "folded", NULL);
	ok(folded && strstr(folded, "function:function;f3;f2;f1 1\n"), "a whole chain is folded");
	ok(folded && strstr(folded, "function:function;[cut];f3;f1 1\n") &&
		   strstr(folded, "function:function;[cut];f1 1\n"),
	   "chains that go on begin with a mark");
	free(folded);
}

int main(void)
{
	struct scratch scratch = scratch_make();

	put_trace(scratch.path);
	prints(scratch.path, NULL, NULL, WHOLE CUT UNKNOWN);
	prints(scratch.path, "--filter", "stack ~ 'f2*'", WHOLE);
	prints(scratch.path, "--filter", "stack.function == f3 && ip == f1", CUT);
	prints(scratch.path, "--json", NULL,
	       "{\"ns\":1,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[\"0xffffffff81002020\",\"0xffffffff81003030\"],"
	       "\"stack_symbol\":[\"f2+0x20/0x90\",\"f3+0x30/0x90\"],\"stack_cut\":false}\n"
	       "{\"ns\":2,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[\"0xffffffff81003030\"],"
	       "\"stack_symbol\":[\"f3+0x30/0x90\"],\"stack_cut\":true}\n"
	       "{\"ns\":3,\"vcpu\":0,\"event\":\"function:function\",\"ip\":\"0xffffffff81001000\","
	       "\"ip_symbol\":\"f1\",\"stack\":[],\"stack_symbol\":[],\"stack_cut\":true}\n");
	test_folded(scratch.path);
	scratch_remove(&scratch);
	return tap_done();
}
