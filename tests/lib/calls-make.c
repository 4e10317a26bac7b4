/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/calls-make.h"

#include <stdio.h>
#include <stdlib.h>
#include "formats/event/graph.h"
#include "formats/trace/writer.h"
#include "tests/lib/trace-make.h"

enum { OUTER = 0x1000, INNER = 0x2000, READ = 0x3000, WRITE = 0x4000, STACK = 0x9000 };
enum { FAILED = 2, NOENT = 2 };

static const struct trace_info info = {.mode = "trap"};

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	static const char *const names[] = {"", "outer", "inner", "__x64_sys_read",
					    "__x64_sys_write"};

	(void)arg;
	out->size = 0x1000;
	out->start = address & ~(out->size - 1);
	if (out->start < OUTER || out->start > WRITE)
		return -1;
	snprintf(out->name, sizeof(out->name), "%s", names[out->start / out->size]);
	return 0;
}

static void put(struct trace_writer *writer, int instance, unsigned int class, int64_t ns,
		const struct graph_event *call)
{
	const struct syscall_event event = {.call = *call};

	trace_put(writer, instance, class, ns, &event);
}

static void enter(struct trace_writer *writer, int instance, uint64_t ip, uint64_t frame,
		  int64_t ns)
{
	const struct graph_event event = {.call = {.ip = ip, .pid = 1}, .frame = frame};

	put(writer, instance, GRAPH_ENTRY, ns, &event);
}

static void leave(struct trace_writer *writer, int instance, uint64_t frame, int64_t ns,
		  int64_t result)
{
	const struct graph_event event = {
		.call = {.pid = 1}, .frame = frame, .result = (uint64_t)result};

	put(writer, instance, GRAPH_EXIT, ns, &event);
}

/* Each event of a system call is in its own time, as those of the graph tracer are. */
static void put_pair(struct trace_writer *writer, int instance, const uint64_t *ips, int i,
		     int64_t result)
{
	const int64_t ns = i * 100000;

	enter(writer, instance, ips[0], STACK, ns);
	enter(writer, instance, ips[1], STACK - 64, ns + 10);
	leave(writer, instance, STACK - 64, ns + 20 + i, 1);
	if (i < CALLS_MADE - 1)
		leave(writer, instance, STACK, ns + 1000, result);
}

void calls_make(const char *dir, uint64_t lost)
{
	static const uint64_t functions[] = {OUTER, INNER}, syscalls[] = {READ, WRITE};
	struct trace_writer *writer;
	int graph, calls;

	if (trace_writer_create(dir, 1, 0, &info, &writer, NULL))
		abort();
	graph = trace_add(writer, "graph", graph_classes(0), GRAPH_NR_CLASSES);
	calls = trace_add(writer, "syscalls", syscall_classes(0), SYSCALL_NR_CLASSES);
	for (int i = 0; i < CALLS_MADE; i++) {
		put_pair(writer, graph, functions, i, 0);
		put_pair(writer, calls, syscalls, i, i < FAILED ? -NOENT : 0);
	}
	trace_writer_add_overruns(writer, (unsigned int)graph, 0, lost);
	if (trace_writer_finish(writer, &info, symbolize, NULL, NULL))
		abort();
	trace_writer_destroy(writer);
}
